from collections.abc import Callable, Sequence
from typing import Any, final

import numpy as np
import numpy.typing as npt

@final
class Program:
    def __init__(
        self,
        calls: list[tuple[Any, ...]],
        others: list[tuple[Any, ...]],
        constants: list[Any],
        inputs: tuple[int, ...],
        outputs: tuple[int, ...],
        remembered: list[int],
        memory: Any,
        described: Callable[[Exception, Any], Exception],
    ) -> None: ...
    def run(self, arguments: Sequence[Any]) -> list[Any]: ...

@final
class ByLayout:
    def __init__(self, prepare: Callable[..., Callable[..., Any]], fixed: tuple[bool, ...]) -> None: ...
    def __call__(self, x: npt.NDArray[Any], *others: Any) -> Any: ...

def run_calls(
    calls: list[tuple[Any, ...]], slots: list[Any], described: Callable[[Exception, Any], Exception]
) -> None: ...
def read_only_views(
    feeds: dict[str, Any], ports: tuple[tuple[str, np.dtype[Any] | None, tuple[int | str | None, ...] | None], ...]
) -> list[npt.NDArray[Any]] | None: ...
def are_separate(results: list[Any]) -> bool: ...
def is_apart(array: npt.NDArray[Any], arguments: list[Any], skipped: int) -> bool: ...
def is_same_memory(a: npt.NDArray[Any], b: npt.NDArray[Any]) -> bool: ...
