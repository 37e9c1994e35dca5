"""What `num_threads` and `use_isa` return: a setting of the calling thread that a ``with`` block undoes."""

from __future__ import annotations

import functools
import inspect
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any, ParamSpec, Self, TypeVar

P = ParamSpec("P")
T = TypeVar("T")
ENDS_LATER = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR


class Variable:
    """A value that each thread has of its own, and what is known of how it came to be."""

    def __init__(self, name: str, get: Callable[[], Any], put: Callable[[Any], None]) -> None:
        self.name, self.get, self.put = name, get, put
        self._thread = threading.local()

    @property
    def state(self) -> tuple[Any, object]:
        """The value, and the token of the call that made it if no block has been entered since."""
        return self.get(), getattr(self._thread, "token", None)

    @state.setter
    def state(self, state: tuple[Any, object]) -> None:
        value, self._thread.token = state
        self.put(value)

    @property
    def blocks(self) -> list[tuple[ThreadSetting, tuple[Any, object]]]:
        """The settings whose blocks this thread is in, the innermost last, and the state that leaving each restores."""
        if not hasattr(self._thread, "blocks"):
            self._thread.blocks = []
        found: list[tuple[ThreadSetting, tuple[Any, object]]] = self._thread.blocks
        return found


class ThreadSetting:
    """A value that holds in the thread that made this, from then on."""

    def __init__(self, variable: Variable, value: Any, before: object) -> None:
        self._variable, self._value, self._shown_before = variable, value, before
        # A token of its own: the states of blocks, and later calls, do not keep this object.
        self._token = object()
        self._before = variable.state
        variable.state = (value, self._token)

    def __repr__(self) -> str:
        made = f"int8blas.{self._variable.name}({self._value!r})"
        return f"<{made}, before: {self._shown_before}; a with block undoes it>"

    def __enter__(self) -> Self:
        variable = self._variable
        state = variable.state
        variable.blocks.append((self, self._before if state[1] is self._token else state))
        variable.state = (self._value, None)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        blocks = self._variable.blocks
        inner = next((i for i in reversed(range(len(blocks))) if blocks[i][0] is self), None)
        if inner is None:
            raise RuntimeError(f"{self._variable.name}({self._value!r}) must be left by the thread that entered it")
        _, before = blocks.pop(inner)
        if inner == len(blocks):
            self._variable.state = before
        else:  # the block entered next is still open: its setting stays, and what it restores is what this one would
            blocks[inner] = (blocks[inner][0], before)

    def __call__(self, function: Callable[P, T]) -> Callable[P, T]:
        """As a decorator: not in effect any more, but during each call of the function."""
        code = getattr(function, "__code__", None)
        if getattr(code, "co_flags", 0) & ENDS_LATER:
            raise TypeError(
                f"function must not be a generator or a coroutine function, as its body runs after the call, got "
                f"{function!r}"
            )
        if self._variable.state[1] is self._token:
            self._variable.state = self._before

        @functools.wraps(function)
        def limited(*args: P.args, **kwargs: P.kwargs) -> T:
            with self:
                return function(*args, **kwargs)

        return limited
