"""A summary of this build and this machine, for people to read."""

from __future__ import annotations

import platform
from typing import Any

import numpy as np

from int8blas._version import __version__
from int8blas.core import kernels, threads
from int8blas.core.machine import machine


def cpu_name() -> str:
    """Return the name of the CPU, or its architecture if the CPU reports no name."""
    return kernels.cpu_name() or platform.processor() or platform.machine()


def _size(size: int) -> str:
    """Return a number of bytes as text with a unit."""
    return f"{size >> 10} KiB" if size else "none"


def _config() -> dict[str, dict[str, Any]]:
    here = machine()
    return {
        "int8blas": {"version": __version__, "python": platform.python_version(), "numpy": np.__version__},
        "cpu": {
            "name": cpu_name(),
            "architecture": platform.machine(),
            "cores": here["cores"],
            "L1 cache of a core": _size(here["l1"]),
            "L2 cache of a core": _size(here["l2"]),
            "L3 cache": _size(here["l3"]),
        },
        "isas": {
            "built": list(kernels.built_isas()),
            "supported": list(kernels.available_isas()),
            "selected": kernels.kernel_info()["isa"],
        },
        "kernel": kernels.kernel_info(),
        "threading": threads.threading_info(),
    }


def show_config(mode: str = "stdout") -> dict[str, dict[str, Any]] | None:
    """Show the version, the CPU and its caches, the instruction sets (built, supported, selected) and the threads.

    Parameters
    ----------
    mode : {'stdout', 'dicts'}, optional
        Print, or return a dict of dicts.

    Returns
    -------
    dict or None

    Raises
    ------
    ValueError
        If `mode` is neither 'stdout' nor 'dicts'.

    Examples
    --------
    >>> import int8blas
    >>> "ref" in int8blas.show_config(mode="dicts")["isas"]["supported"]
    True
    """
    if mode not in ("stdout", "dicts"):
        raise ValueError(f"mode must be 'stdout' or 'dicts', got {mode!r}")
    config = _config()
    if mode == "dicts":
        return config
    for section, entries in config.items():
        print(f"{section}:")
        for key, value in entries.items():
            shown = ", ".join(map(str, value)) if isinstance(value, (list, tuple)) else value
            print(f"  {key}: {shown}")
    return None
