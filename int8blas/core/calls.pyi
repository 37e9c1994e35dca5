from collections.abc import Callable, Sequence
from typing import Any, final

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

def run_calls(
    calls: list[tuple[Any, ...]], slots: list[Any], described: Callable[[Exception, Any], Exception]
) -> None: ...
def is_apart(array: npt.NDArray[Any], others: list[Any]) -> bool: ...
def is_same_memory(a: npt.NDArray[Any], b: npt.NDArray[Any]) -> bool: ...
