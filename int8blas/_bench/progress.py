"""A progress bar on the error stream."""

from __future__ import annotations

import shutil
import sys
import time

WIDTH = 30
INTERVAL = 0.1  # seconds between two drawings


class Progress:
    """A progress bar on a terminal. If the stream is a pipe or a file, nothing is written."""

    def __init__(self) -> None:
        self._drawn = 0.0
        self._length = 0

    def show(self, fraction: float, text: str) -> None:
        """Draw the bar and then the text, unless the last drawing is less than INTERVAL ago."""
        now = time.perf_counter()
        if now - self._drawn < INTERVAL or not sys.stderr.isatty():
            return
        self._drawn = now
        fraction = min(max(fraction, 0.0), 1.0)
        full = round(WIDTH * fraction)
        line = f"[{'#' * full}{'-' * (WIDTH - full)}] {100 * fraction:3.0f} % {text}"
        self._write(line[: shutil.get_terminal_size().columns - 1])

    def clear(self) -> None:
        """Erase the bar."""
        if self._length:
            self._write("")
            self._length = 0

    def _write(self, line: str) -> None:
        sys.stderr.write(f"\r{line.ljust(self._length)}" + "\r" * (not line))
        sys.stderr.flush()
        self._length = len(line)
