from types import TracebackType
from typing import Self

from typing_extensions import disjoint_base

@disjoint_base
class Recycling:
    def __enter__(self) -> Self: ...
    def __exit__(
        self, error_type: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...
