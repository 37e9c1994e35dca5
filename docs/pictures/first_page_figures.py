"""Written by benchmarks/first_page.py: for each column of the table (ms, whether the result is wrong)."""

CPU = "AMD EPYC (Zen 4)"
SHAPE = (512, 768, 768)
COLUMNS = ("VNNI", "no VNNI")
ROWS = (
    ("int8blas, packed B", (1.329, False), (3.448, False)),
    ("int8blas", (1.362, False), (3.509, False)),
    ("SciPy sgemm, float32", (6.025, False), (5.773, False)),
    ("torch._int_mm", (1.356, False), (275.387, False)),
    ("onnxruntime MatMulInteger, uint8 A", (1.349, False), None),
    ("oneDNN dnnl_gemm_s8s8s32", (1.355, False), (3.007, True)),
    ("NumKong dots_packed", (2.497, False), (5.51, False)),
)
