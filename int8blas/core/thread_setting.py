"""The object that `num_threads` and `use_isa` return. The object is a setting of the thread, or of the process, which
the end of a ``with`` block undoes."""

from __future__ import annotations

import contextlib
import functools
import inspect
import threading
from collections.abc import Callable
from types import SimpleNamespace, TracebackType
from typing import Any, Literal, ParamSpec, Self, TypeVar

P = ParamSpec("P")
T = TypeVar("T")
ENDS_LATER = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR


class Variable:
    """A value of each thread, or of the process, with the calls and open blocks that set it."""

    def __init__(
        self,
        name: str,
        get: Callable[[], Any],
        put: Callable[[Any], None],
        scope: Literal["thread", "process"] = "thread",
    ) -> None:
        self.name, self.get, self.put, self.scope = name, get, put, scope
        # If threads share the value, a lock lets them change it one after another.
        of_thread = scope == "thread"
        self._owner: Any = threading.local() if of_thread else SimpleNamespace()
        self.lock: contextlib.AbstractContextManager[Any] = contextlib.nullcontext() if of_thread else threading.RLock()

    def call(self, value: Any) -> str:
        """Return the source code of the call that sets the value."""
        return f"{self.name}({value!r}{'' if self.scope == 'thread' else f', scope={self.scope!r}'})"

    @property
    def state(self) -> tuple[Any, object]:
        """Return the value, and the token of the call that set it, if no block has been entered since that call."""
        return self.get(), getattr(self._owner, "token", None)

    @state.setter
    def state(self, state: tuple[Any, object]) -> None:
        value, self._owner.token = state
        self.put(value)

    @property
    def blocks(self) -> list[tuple[ThreadSetting, tuple[Any, object]]]:
        """Return the settings whose blocks are open, the innermost last. Each setting is paired with the state that the
        end of its block restores."""
        if not hasattr(self._owner, "blocks"):
            self._owner.blocks = []
        found: list[tuple[ThreadSetting, tuple[Any, object]]] = self._owner.blocks
        return found


class ThreadSetting:
    """A value that applies, in its thread or in the process, from the creation of this object."""

    def __init__(self, variable: Variable, value: Any, before: object) -> None:
        self._variable, self._value, self._shown_before = variable, value, before
        # The token is a separate object, so that states of blocks and later calls do not keep the ThreadSetting alive.
        self._token = object()
        with variable.lock:
            self._before = variable.state
            variable.state = (value, self._token)

    def __repr__(self) -> str:
        made = self._variable.call(self._value)
        return f"<int8blas.{made}, before: {self._shown_before}; a with block undoes it>"

    def __enter__(self) -> Self:
        variable = self._variable
        with variable.lock:
            state = variable.state
            variable.blocks.append((self, self._before if state[1] is self._token else state))
            variable.state = (self._value, None)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        variable = self._variable
        with variable.lock:
            blocks = variable.blocks
            inner = next((i for i in reversed(range(len(blocks))) if blocks[i][0] is self), None)
            if inner is None:
                raise RuntimeError(f"{variable.call(self._value)} must be left by the {variable.scope} that entered it")
            _, before = blocks.pop(inner)
            if inner == len(blocks):
                variable.state = before
            else:  # a later block is still open, so its setting stays
                blocks[inner] = (blocks[inner][0], before)

    def __call__(self, function: Callable[P, T]) -> Callable[P, T]:
        """Decorate a function: undo the setting now, and apply it during each call of the function."""
        code = getattr(function, "__code__", None)
        if getattr(code, "co_flags", 0) & ENDS_LATER:
            raise TypeError(
                f"function must not be a generator or a coroutine function, as its body runs after the call, got "
                f"{function!r}"
            )
        with self._variable.lock:
            if self._variable.state[1] is self._token:
                self._variable.state = self._before

        @functools.wraps(function)
        def limited(*args: P.args, **kwargs: P.kwargs) -> T:
            with self:
                return function(*args, **kwargs)

        return limited
