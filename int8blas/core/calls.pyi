from collections.abc import Callable
from typing import Any

def run_calls(
    calls: list[tuple[Any, ...]], slots: list[Any], described: Callable[[Exception, Any], Exception]
) -> None: ...
