from collections.abc import Callable
from typing import Any, NoReturn

def run_calls(calls: list[tuple[Any, ...]], slots: list[Any], failed: Callable[[Exception, Any], NoReturn]) -> None: ...
