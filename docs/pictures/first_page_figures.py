"""Written by benchmarks/first_page.py: for each column of the table (ms, whether the result is wrong)."""

CPU = "AMD EPYC"
SHAPE = (512, 768, 768)
COLUMNS = ("VNNI", "no VNNI")
ROWS = (
    ("int8blas, packed B", (1.382, False), (3.538, False)),
    ("int8blas", (1.402, False), (3.459, False)),
    ("SciPy sgemm, float32", (6.335, False), (6.014, False)),
    ("torch._int_mm", (1.395, False), (1012.891, False)),
    ("onnxruntime MatMulInteger, uint8 A", (1.39, False), None),
    ("oneDNN dnnl_gemm_s8s8s32", (1.394, False), (3.064, True)),
    ("NumKong dots_packed", (2.538, False), (9.807, False)),
)
