"""Explain the plan of a convolution."""

from dataclasses import replace

cimport int8blas.core.cnumpy as cnp

from int8blas.convolution.layer cimport ConvolutionLayer
from int8blas.convolution.lines cimport matrix_of_lines
from int8blas.core.kernels cimport I8_PANEL, i8_image, i8_matrix
from int8blas.core.threads cimport max_threads
from int8blas.gemm.explain cimport explain_problem
from int8blas.gemm.problem cimport Problem, applies_from_registers, tile_rows

from int8blas.convolution.convolution import Convolution
from int8blas.convolution.deconvolution import Deconvolution
from int8blas.gemm.explain import register
from int8blas.gemm.explanation import Explanation, add_path

cnp.import_array()


def explain_layer(ConvolutionLayer layer, cnp.ndarray src):
    """Return the Explanation of a layer for the source `src`."""
    cdef Problem g
    cdef i8_image image
    cdef const i8_matrix *matrix
    cdef size_t workspace = 0
    layer.created()
    path, _owners = layer.describe(src, &g, &image, &workspace)
    threads = max_threads()
    if path == "gemm":
        g.threads = threads
        return replace(explain_problem(&g, layer._numerics, None), a_quantized=layer._dynamic is not None)
    tile = {
        "depthwise": (1, g.kernels.convolution.depthwise_channels),
        "groups": (g.kernels.convolution.grouped_pixels, g.kernels.convolution.grouped_channels),
    }.get(path, (tile_rows(&g, applies_from_registers(&g)), g.kernels.gemm.np * I8_PANEL))
    if path == "lines":
        matrix = matrix_of_lines(&g, &image)
        if matrix is not NULL:
            tile = (matrix.mr, matrix.np * I8_PANEL)
    return Explanation(
        shape=(g.m, g.n, g.k), path=path, isa=g.kernels.name.decode(), numerics="exact", tile=tile, block=None,
        threads=g.threads, thread_grid=None, k_parts=1, segments=1, max_threads=threads, workspace=workspace,
        b_is_packed=True, a_in_place=False, a_shifted=layer._flip != 0, b_shifted=False, wide_sums=False,
        may_widen=False, transposed=False, certified_panels=None, split_panels=None,
        a_quantized=layer._dynamic is not None)


add_path("lines", "tiles of C from windows in a copy of some lines of the image", False)
add_path("depthwise", "each channel has filters of its own; lines of the image are interleaved for all windows", True)
add_path("groups", "a lane for four channels of a small group, from a copy of some lines of the image", True)
register(Convolution, explain_layer)
register(Deconvolution, explain_layer)
