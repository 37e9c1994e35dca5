"""The folder of the C header."""

from pathlib import Path


def get_include() -> str:
    """Return the folder of ``int8blas.h``, for the include path of a C or C++ compiler.

    The header has prototypes of the functions of ``int8blas.cython_blas``, and ``import_int8blas()``, which finds these
    functions at run time. There is no library to link. Cython needs no header: it has ``cython_blas.pxd``.

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
