from typing import final

from int8blas.convolution.layer import ConvolutionLayer

@final
class Convolution(ConvolutionLayer): ...
