"""The folder of the C header."""

from pathlib import Path


def get_include() -> str:
    """Return the folder of ``int8blas.h``, for the include path of a C or C++ compiler.

    The header has the functions of ``int8blas.cython_blas`` with their prototypes, and ``import_int8blas()``, which
    finds them when it is called. Nothing has to be linked. Cython needs no header: it has ``cython_blas.pxd``.

    Returns
    -------
    str
        An absolute path.

    Examples
    --------
    As an argument of ``setuptools.Extension``:

    >>> import os
    >>> import int8blas
    >>> include_dirs = [int8blas.get_include()]
    >>> os.listdir(include_dirs[0])
    ['int8blas.h']
    """
    return str(Path(__file__).resolve().parents[1] / "include")
