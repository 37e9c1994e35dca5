"""The kernel registry: the built instruction sets, the sets that this CPU supports, and the selected set.

Only this module links ``csrc/``. Modules that need kernels get the kernel tables from :func:`current_kernels`, so the
process has one selection.
"""

import os

from libc.stdint cimport int64_t, uint8_t, uint32_t, uintptr_t

from int8blas.core.thread_setting import ThreadSetting, Variable

cdef extern from "isa/kernels.h" nogil:
    const i8_kernels *const i8_all_kernels[]
    const i8_kernels *i8_current()
    void i8_select(const i8_kernels *kernels)
    void i8_set_default(const i8_kernels *kernels)
    const i8_kernels *i8_selected()

cdef extern from "core/checksum.h" nogil:
    size_t i8_fold_checksum(uint8_t *rest, const uint8_t *data, size_t size, uint32_t state)

cdef extern from "isa/cpu.h" nogil:
    const char *i8_cpu_name()
    void i8_cpu_caches(int64_t *bytes)


cdef extern from * nogil:
    """
    #define I8_ELTWISE_ROW(name, formula, code) {#name, formula},
    static const char *const i8_eltwises[][2] = {I8_ELTWISES(I8_ELTWISE_ROW) {0, 0}};
    """
    const char *const i8_eltwises[][2]


cdef const i8_kernels *current_kernels() noexcept nogil:
    return i8_current()


def built_isas():
    """Return the names of the instruction sets that this build has kernels for, best first."""
    names = []
    cdef int i = 0
    while i8_all_kernels[i] is not NULL:
        names.append(i8_all_kernels[i].name.decode())
        i += 1
    return tuple(names)


def available_isas():
    """Return the names of the instruction sets that this build has kernels for and this CPU supports, best first.

    Returns
    -------
    tuple of str
        The names. On x86-64 the names are some of ``'amx'``, ``'avx512vnni'``, ``'avxvnni'``, ``'avx512bw'`` and
        ``'avx2'``. On 64-bit Arm the names are some of ``'i8mm'``, ``'dotprod'`` and ``'neon'``. ``'ref'``, the
        portable C kernels, is always among the names. The first name is the default.

    See Also
    --------
    use_isa : select one of these instruction sets.

    Examples
    --------
    >>> import int8blas
    >>> int8blas.available_isas()[-1]
    'ref'
    """
    names = []
    cdef int i = 0
    while i8_all_kernels[i] is not NULL:
        if i8_all_kernels[i].supported():
            names.append(i8_all_kernels[i].name.decode())
        i += 1
    return tuple(names)


cdef const i8_kernels *built(str name, str argument) except NULL:
    """Return the kernel table with this name, or raise an error that names the argument."""
    cdef int i = 0
    while i8_all_kernels[i] is not NULL:
        if i8_all_kernels[i].name.decode() == name:
            return i8_all_kernels[i]
        i += 1
    raise ValueError(f"{argument} must be one of {', '.join(built_isas())}, got {name!r}")


cdef const i8_kernels *find(str name, str argument) except NULL:
    """Return the kernel table with this name if this CPU supports it, else raise an error."""
    cdef const i8_kernels *kernels = built(name, argument)
    if not kernels.supported():
        raise RuntimeError(f"{argument} {name!r} is not supported by this CPU, which supports "
                           f"{', '.join(available_isas())}")
    return kernels


def _selected():
    return None if i8_selected() is NULL else i8_selected().name.decode()


def _select(name):
    i8_select(NULL if name is None else find(name, "name"))


_variable = Variable("use_isa", _selected, _select)


def use_isa(name=...):
    """Use the kernels of one instruction set in the calling thread from now on. Without `name`, return the name of the
    set in use.

    The instruction set changes the speed, not the results. The selection applies to calls of this thread, including the
    OpenMP threads of these calls. For a whole process set the environment variable ``INT8BLAS_ISA`` before the import.

    Parameters
    ----------
    name : str, optional
        One of :func:`available_isas`.

    Returns
    -------
    str or context manager
        Without `name`, the name of the instruction set in use. With `name`, an object whose ``with`` block restores the
        former setting at its end; a plain call may ignore this object. :func:`num_threads` says how blocks nest, and
        how the object works as a decorator.

    Raises
    ------
    TypeError
        If `name` is not a string.
    ValueError
        If this build has no kernels of this name.
    RuntimeError
        If this CPU does not support the instruction set.

    Examples
    --------
    >>> import numpy as np, int8blas
    >>> a, b = np.full((2, 3), 200, np.uint8), np.full((3, 2), -100, np.int8)
    >>> with int8blas.use_isa("ref"):
    ...     print(int8blas.use_isa())
    ...     int8blas.gemm_u8s8s32(1, a, b)
    ref
    array([[-60000, -60000],
           [-60000, -60000]], dtype=int32)
    """
    used = i8_current().name.decode()
    if name is ...:
        return used
    if not isinstance(name, str):
        raise TypeError(f"name must be a str, got {type(name).__name__}")
    name = str(name)
    find(name, "name")
    return ThreadSetting(_variable, name, used)


def table_address(name):
    """Return the address of a built kernel table, for plans. This CPU need not support the instruction set, because
    plans only read the numbers of the table."""
    return <uintptr_t>built(name, "name")


def kernel_info():
    """Return the name and the block sizes of the selected table, as a dict that show_config and explain print."""
    cdef const i8_kernels *kernels = i8_current()
    info = {
        "isa": kernels.name.decode(),
        "tile": (kernels.gemm.mr, kernels.gemm.np * I8_PANEL),
        "block of k": kernels.tuning.kc,
        "block of A": f"{kernels.tuning.a_bytes >> 10} KiB",
        "exact by": {I8_DOT4: "one multiply-add", I8_DOT2: "certified panels, or widening"}[kernels.gemm.exact],
    }
    if kernels.matrix is not NULL:
        info["matrix unit's tile"] = (kernels.matrix.mr, kernels.matrix.np * I8_PANEL)
    return info


def cpu_name():
    """Return the brand string of the CPU, or an empty string if the CPU has none."""
    return i8_cpu_name().decode("ascii", "replace").strip()


def cpu_caches():
    """Return the bytes of the L1, L2 and L3 caches that the CPU or macOS reports, and 0 for an unreported cache."""
    cdef int64_t bytes_[3]
    i8_cpu_caches(bytes_)
    return bytes_[0], bytes_[1], bytes_[2]


def fold_checksum(uintptr_t address, size_t size, uint32_t state):
    """Reduce the first bytes at an address to 16 bytes with an equal CRC-32 (csrc/core/checksum.h). Return the 16 bytes
    and the number of the first bytes, which may be 0."""
    cdef uint8_t rest[16]
    cdef size_t folded
    with nogil:
        folded = i8_fold_checksum(rest, <const uint8_t *>address, size, state)
    return (<char *>rest)[:16] if folded else b"", folded


def _select_default():
    """Make the best supported table, or the table that INT8BLAS_ISA names, the default."""
    cdef const i8_kernels *kernels
    name = os.environ.get("INT8BLAS_ISA", "")
    kernels = find(name or available_isas()[0], "INT8BLAS_ISA")
    i8_set_default(kernels)


_select_default()


def eltwise_formulas():
    """Return the names and the formulas of the element-wise post-ops, in the order of csrc/stage/eltwise_list.h."""
    formulas = {}
    cdef int i = 0
    while i8_eltwises[i][0] is not NULL:
        formulas[i8_eltwises[i][0].decode().lower()] = i8_eltwises[i][1].decode()
        i += 1
    return formulas
