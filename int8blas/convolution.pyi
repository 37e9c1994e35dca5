from typing import final

from int8blas._convolution_layer import ConvolutionLayer

@final
class Convolution(ConvolutionLayer): ...
