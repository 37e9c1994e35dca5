"""Thread counts: OpenMP's, the environment's, ``num_threads``'s, and one after a fork."""

import operator
import os

from int8blas._thread_setting import ThreadSetting, Variable

cdef extern from *:
    """
    #include "i8_compiler.h"
    #include "i8_openmp.h"
    /* 0: not set in this thread. */
    static I8_THREAD_LOCAL int i8_thread_limit = 0;
    """
    int i8_thread_limit
    int i8_omp_max_threads() nogil
    int i8_omp_in_parallel() nogil
    int i8_omp_team_size() nogil
    int I8_HAVE_OPENMP

# From INT8BLAS_NUM_THREADS; 0: not set.
cdef int process_limit = 0
# GNU OpenMP's threads do not survive a fork: a parallel region in the child of a process that has run one would wait
# for them forever.
cdef bint region_ran = False
cdef bint forked = False


cdef void parallel_region_ran() noexcept nogil:
    global region_ran
    region_ran = True


cdef int max_threads() noexcept nogil:
    """The most threads that a call from this thread may use."""
    if forked or i8_omp_in_parallel():
        return 1
    if i8_thread_limit > 0:
        return i8_thread_limit
    if process_limit > 0:
        return process_limit
    return i8_omp_max_threads()


cdef int team_size() noexcept nogil:
    """How many threads run the parallel region that the caller is in."""
    return i8_omp_team_size()


def _after_fork_in_child():
    global forked
    forked = region_ran


def thread_count(value, name):
    """A positive C int from a Python value, or an error that names it."""
    try:
        count = operator.index(value)
    except TypeError:
        raise TypeError(f"{name} must be an integer, got {type(value).__name__}") from None
    if not 1 <= count <= 1024:
        raise ValueError(f"{name} must be between 1 and 1024, got {count}")
    return count


def _limit():
    return i8_thread_limit


def _put_limit(limit):
    global i8_thread_limit
    i8_thread_limit = limit


_variable = Variable("num_threads", _limit, _put_limit)


def num_threads(n=...):
    """Use at most `n` threads for each call of the calling thread, from now on; without `n`, how many that is.

    Without a setting a call uses what ``INT8BLAS_NUM_THREADS`` says, else OpenMP's own limit for the calling thread
    (which ``OMP_NUM_THREADS`` and threadpoolctl set). Small problems use fewer threads, and never more than that.
    Results do not depend on the number.

    Parameters
    ----------
    n : int, optional
        1 to 1024.

    Returns
    -------
    int or context manager
        Without `n`, the number of threads that a call may use now. With it, an object whose ``with`` block restores, on
        leaving, what was set before the call; a plain call may ignore it.

    Raises
    ------
    TypeError, ValueError
        If `n` is not such an integer.

    See Also
    --------
    use_isa : the same for instruction sets.

    Notes
    -----
    The object may be used in any number of blocks, nested ones too, and by any thread. Each sets the thread that enters
    it. The first one in the thread of the call undoes the call, if that is its last setting; any other block restores
    what it found when it was entered. Blocks may be left in another order, by ``contextlib.ExitStack`` for example: of
    those still open, the one entered last holds, and after the last one everything is as before the first. Leaving
    one in a thread that is not in it is a RuntimeError, and changes nothing. Threads are meant, not tasks: between
    ``await`` and the next line other tasks of the thread see the setting.

    As a decorator, ``@num_threads(n)``, it is in effect during each call of the function alone.

    Examples
    --------
    >>> import numpy as np, int8blas
    >>> a, b = np.full((64, 64), 2, np.uint8), np.full((64, 64), 3, np.int8)
    >>> with int8blas.num_threads(2):
    ...     int8blas.num_threads(), int(int8blas.gemm_u8s8s32(1, a, b)[0, 0])
    (2, 384)
    """
    return max_threads() if n is ... else ThreadSetting(_variable, thread_count(n, "n"), max_threads())


def threading_info():
    """Whether OpenMP was compiled in and how many threads a call may use now, as a dict."""
    return {"openmp": bool(I8_HAVE_OPENMP), "threads": max_threads()}


def _configure():
    global process_limit
    text = os.environ.get("INT8BLAS_NUM_THREADS", "")
    if text:
        if not text.isascii() or not text.isdigit():
            raise ValueError(f"INT8BLAS_NUM_THREADS must be an integer, got {text!r}")
        process_limit = thread_count(int(text), "INT8BLAS_NUM_THREADS")
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=_after_fork_in_child)


_configure()
