"""im2col and scipy.linalg.blas.sgemm as a float32 convolution."""

from __future__ import annotations

import numpy as np
from int8blas._bench.peers.base import Peer, Prepared
from int8blas._bench.peers.blas_f32 import SCIPY, SciPy

from convolutions import ConvolutionOperands, ConvolutionProblem


class Convolution(Peer):
    """NumPy copies the windows of an image into a matrix; 1x1 kernels without a stride need no copy.

    The product is transposed as in `scipy_linear`; bias and ReLU are omitted.
    """

    name, kind, library = SCIPY, "f32", "SciPy"

    def __init__(self) -> None:
        blas = SciPy(reuse_c=True)
        self.version, self._sgemm = blas.version, blas.sgemm

    def supports(self, problem: ConvolutionProblem) -> bool:
        return problem.groups == 1

    def prepare(self, operands: ConvolutionOperands, threads: int) -> Prepared:
        p, sgemm = operands.problem, self._sgemm
        top, left = p.padding
        padded = np.zeros((p.batch, p.h + 2 * top, p.w + 2 * left, p.ic), np.float32)
        inner = padded[:, top : top + p.h, left : left + p.w]
        src = operands.src_f32
        windows = np.lib.stride_tricks.sliding_window_view(padded, p.extent, (1, 2))
        windows = windows[:, :: p.stride, :: p.stride, :, :: p.dilation, :: p.dilation].transpose(0, 1, 2, 4, 5, 3)
        columns = np.empty((p.batch, p.oh, p.ow, p.kh, p.kw, p.ic), np.float32)
        copied = p.kh * p.kw * p.stride > 1
        matrix = (columns if copied else src).reshape(-1, p.k)
        weights = np.ascontiguousarray(operands.weights_f32.transpose(0, 2, 3, 1)).reshape(p.oc, p.k)
        dst = np.empty(operands.shape, np.float32)
        c = dst.reshape(-1, p.oc).T

        def run() -> None:
            if copied:
                inner[...] = src
                columns[...] = windows
            sgemm(1.0, weights.T, matrix.T, c=c, trans_a=True, overwrite_c=1)

        return Prepared(run, lambda: operands.check_f32(np.maximum(dst + operands.bias, 0)))


def peers() -> list[Peer]:
    return [Convolution()]
