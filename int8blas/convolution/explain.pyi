from typing import Any

import numpy as np

from int8blas.convolution.layer import ConvolutionLayer
from int8blas.gemm.explanation import Explanation

def explain_layer(layer: ConvolutionLayer, src: np.ndarray[Any, Any]) -> Explanation: ...
