from typing import Any

import numpy as np
import numpy.typing as npt

from int8blas.layers.inner_product import InnerProduct

_Floats = npt.NDArray[np.float32]

def lstm_steps(gates: _Floats, weights: _Floats, bias: _Floats | None, h: _Floats, c: _Floats,
               lengths: npt.NDArray[Any] | None = None) -> tuple[_Floats, tuple[_Floats, _Floats]]: ...
def gru_steps(gates: _Floats, weights: _Floats | InnerProduct, bias: _Floats | None, h: _Floats,
              lengths: npt.NDArray[Any] | None = None, *,
              reset_after: bool = False) -> tuple[_Floats, tuple[_Floats]]: ...
def rnn_steps(gates: _Floats, weights: _Floats | InnerProduct, h: _Floats, lengths: npt.NDArray[Any] | None = None, *,
              bias: _Floats | None = None, relu: bool = False) -> tuple[_Floats, tuple[_Floats]]: ...
