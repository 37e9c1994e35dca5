"""The dequantized weights of int8 modules, computed only for code that reads their values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Self

import torch
from torch import Tensor
from torch.utils._pytree import tree_map_only

# The functions of torch that do not read the values of a tensor.
SHAPES = {
    *(getattr(Tensor, name).__get__ for name in
      ("dtype", "device", "shape", "ndim", "layout", "is_cpu", "is_cuda", "is_meta", "is_quantized", "is_sparse",
       "requires_grad", "itemsize", "nbytes")),
    Tensor.size, Tensor.dim, Tensor.ndimension, Tensor.numel, Tensor.element_size, Tensor.is_floating_point,
    Tensor.is_complex, Tensor.__len__,
}  # fmt: skip


class LazyWeight(Tensor):
    """The weights of an int8 module, computed when a function first reads their values. Models read ``weight.dtype`` or
    ``weight.device`` in each call, and computing the weights takes longer than a call.

    Parameters
    ----------
    shape : sequence of int
        The shape of the weights.
    dtype : torch.dtype
        The dtype of the weights.
    compute : callable
        The function that returns the weights.
    """

    _compute: Callable[[], Tensor]
    _values: Tensor | None

    @staticmethod
    def __new__(cls: type[Self], shape: Any, dtype: torch.dtype, compute: Callable[[], Tensor]) -> Self:
        """Create a tensor without memory."""
        made: Any = Tensor._make_wrapper_subclass(cls, shape, dtype=dtype)  # type: ignore[attr-defined, unused-ignore]
        made._compute, made._values = compute, None
        return made

    @classmethod
    def __torch_function__(
        cls, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        """Call a function of torch, which receives a plain tensor if it reads values."""
        if func in SHAPES:
            with torch._C.DisableTorchFunctionSubclass():
                return func(*args, **kwargs or {})
        args, options = tree_map_only(LazyWeight, LazyWeight.computed, (args, dict(kwargs or {})))
        return func(*args, **options)

    __torch_dispatch__ = __torch_function__

    def computed(self) -> Tensor:
        """Return the weights as a plain tensor.

        Returns
        -------
        Tensor
        """
        if self._values is None:
            self._values = self._compute()
        return self._values
