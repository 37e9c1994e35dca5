from types import TracebackType
from typing import Any, Self

import numpy.typing as npt
from typing_extensions import disjoint_base

@disjoint_base
class RunContext:
    def __enter__(self) -> Self: ...
    def __exit__(self, error_type: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None: ...

@disjoint_base
class KnownView:
    def __init__(self, x: npt.NDArray[Any], y: npt.NDArray[Any], others: tuple[Any, ...]) -> None: ...
    def __call__(self, x: npt.NDArray[Any], others: tuple[Any, ...]) -> npt.NDArray[Any] | None: ...

@disjoint_base
class Viewing:
    def remember(self, known: KnownView, shape: tuple[int, ...]) -> None: ...
    def __call__(self, x: npt.NDArray[Any], *values: Any) -> npt.NDArray[Any]: ...
