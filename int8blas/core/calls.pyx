"""A sequence of calls of Python functions. A list of slots has their arguments and results."""

cimport cython
from cpython.ref cimport Py_INCREF
from cpython.tuple cimport PyTuple_New, PyTuple_SET_ITEM
from libc.stdint cimport int64_t, uintptr_t
from libc.string cimport memcmp
cimport int8blas.core.cnumpy as cnp
import numpy as np

from int8blas.core.arrays cimport bounds
from int8blas.core.results cimport Layout, is_laid_out, lay_out
from int8blas.core.turns cimport enter_run, leave_run

cnp.import_array()

cdef object SCALAR = np.generic
# The maximum size in bytes of a value that a ByLayout copies and compares with later values, such as sizes and scales.
# If larger values, such as weights, are not fixed, the ByLayout prepares its function in each call.
cdef int64_t COPIED_BYTES = 256


@cython.final
cdef class Program:
    """The calls of a plan, which several threads may run at the same time.

    Parameters
    ----------
    calls : list of tuple
        All calls, as for :func:`run_calls`.
    others : list of tuple
        The calls whose results depend on more than the shapes of the arguments.
    constants : list
        The values of the slots before a run.
    inputs, outputs : tuple of int
        The slots of arguments and results.
    remembered : list of int
        The slots of the results that depend only on shapes.
    memory : Memory
        Keeps the remembered results for some combinations of shapes.
    described : callable
        As for :func:`run_calls`.
    """

    cdef list calls, others, constants, remembered
    cdef tuple inputs, outputs
    cdef object memory, described

    def __init__(self, calls, others, constants, inputs, outputs, remembered, memory, described):
        self.calls, self.others, self.constants = calls, others, constants
        self.inputs, self.outputs, self.remembered = inputs, outputs, remembered
        self.memory, self.described = memory, described

    def run(self, arguments):
        """Return the results as a list."""
        cdef list slots = self.constants.copy()
        cdef object key, known = None, slot, argument
        cdef bint has_key = bool(self.remembered)
        if len(arguments) != len(self.inputs):
            raise ValueError(f"arguments must be {len(self.inputs)}, got {len(arguments)}")
        for slot, argument in zip(self.inputs, arguments):
            slots[<Py_ssize_t>slot] = argument
            has_key = has_key and type(argument) is cnp.ndarray
        if has_key:
            key = tuple([argument.shape for argument in arguments])
            known = (<dict>self.memory.known).get(key)
        if known is None:
            run_calls(self.calls, slots, self.described)
            if has_key:
                self.memory.remember(key, [(slot, slots[<Py_ssize_t>slot]) for slot in self.remembered])
        else:
            for slot, argument in <list>known:
                slots[<Py_ssize_t>slot] = argument
            run_calls(self.others, slots, self.described)
        return [slots[<Py_ssize_t>slot] for slot in self.outputs]


cpdef run_calls(list calls, list slots, described):
    """Run calls in their order.

    Parameters
    ----------
    calls : list of tuple
        Each call is a function, the slots of its arguments, the slots of its results, the slots that become None after
        the call, and an object that stands for the call in errors.
    slots : list
        The values.
    described : callable
        Takes an error and the object of its call, and returns the error to raise. `described` must not raise the error
        itself: the error and the callable's frame would then refer to each other, and keep the arrays alive until
        Python collects garbage.
    """
    cdef tuple call, places, arguments
    cdef object function, results, value, slot, which = None
    cdef Py_ssize_t i
    enter_run()
    try:
        for call in calls:
            function, places, which = call[0], call[1], call[4]
            arguments = PyTuple_New(len(places))
            for i in range(len(places)):
                value = slots[<Py_ssize_t>places[i]]
                Py_INCREF(value)
                PyTuple_SET_ITEM(arguments, i, value)
            results = function(*arguments)
            places = call[2]
            if type(results) is cnp.ndarray:
                slots[<Py_ssize_t>places[0]] = results
            elif type(results) is tuple:
                for slot, value in zip(places, results):
                    slots[<Py_ssize_t>slot] = as_result(value)
            else:
                slots[<Py_ssize_t>places[0]] = as_result(results)
            results = arguments = value = None
            for slot in <tuple>call[3]:
                slots[<Py_ssize_t>slot] = None
    except Exception as error:
        raise described(error, which)
    finally:
        leave_run()


cdef class Known:
    """A prepared function, `call`, and the layout, dtype and values for which it was prepared."""

    cdef Layout layout
    cdef object dtype, call
    cdef list copies


@cython.final
cdef class ByLayout:
    """A function of an array and other values, prepared for the layout of the array. Several threads may call the
    function at the same time.

    Parameters
    ----------
    prepare : callable
        Takes an array and the first of the other values. Returns a function that takes an array of the same dtype,
        shape and strides, and all other values. An object of this class keeps the last prepared function, and calls it
        again if the layout and the values are equal.
    fixed : tuple of bool
        For each value that `prepare` takes: whether the value is the same, unchanged object in each call.
    """

    cdef object prepare
    cdef tuple fixed
    cdef Known known

    def __init__(self, prepare, fixed):
        self.prepare, self.fixed = prepare, fixed

    def __call__(self, cnp.ndarray x not None, *others):
        cdef Known known = self.known  # another thread may replace self.known
        cdef tuple values = others[:len(self.fixed)]
        if known is None or not fits(known, x, values, self.fixed):
            known = Known()
            lay_out(&known.layout, x)
            known.dtype = (<object>x).dtype
            known.copies = [None if fixed else copy_of(value) for value, fixed in zip(values, self.fixed)]
            # Pass copies, because the function may keep an array, and the caller may change its own array.
            known.call = self.prepare(x, *[
                copy if type(copy) is cnp.ndarray else value for copy, value in zip(known.copies, values)])
            self.known = known
        return known.call(x, *others)


cdef object copy_of(object value):
    """Return a copy of a small array, and None for None. For any other value return its type, which equals no
    value."""
    if type(value) is cnp.ndarray and cnp.PyArray_NBYTES(<cnp.ndarray>value) <= COPIED_BYTES:
        return np.array(value, order="C")
    return None if value is None else type(value)


cdef bint fits(Known known, cnp.ndarray x, tuple values, tuple fixed) noexcept:
    """Return whether a function is prepared for the layout of an array and these values."""
    cdef Py_ssize_t i
    if (not is_laid_out(&known.layout, x) or (<object>x).dtype is not known.dtype
            or len(values) != len(known.copies)):
        return False
    for i in range(len(values)):
        if not <bint>fixed[i] and not equals(known.copies[i], values[i]):
            return False
    return True


cdef bint equals(object copy, object value) noexcept:
    """Return whether a value has the elements, the type and the shape of its copy."""
    cdef cnp.ndarray a, b
    if copy is None or type(copy) is not cnp.ndarray or type(value) is not cnp.ndarray:
        return copy is None and value is None
    a, b = copy, value
    return (cnp.PyArray_TYPE(a) == cnp.PyArray_TYPE(b) and a.ndim == b.ndim and cnp.PyArray_IS_C_CONTIGUOUS(b)
            and memcmp(cnp.PyArray_DIMS(a), cnp.PyArray_DIMS(b), a.ndim * sizeof(cnp.npy_intp)) == 0
            and memcmp(cnp.PyArray_DATA(a), cnp.PyArray_DATA(b), cnp.PyArray_NBYTES(a)) == 0)


cdef object as_result(object value):
    """Return a value unchanged, or a scalar of NumPy as an array."""
    return np.asarray(value) if isinstance(value, SCALAR) else value


cdef cnp.ndarray read_only_view(object feed, object dtype, tuple shape):
    """Return a read-only view of a feed that is an array of exactly this dtype and a matching shape. Return None for
    other feeds. `shape` has sizes and names, or is None for any shape."""
    cdef cnp.ndarray view
    cdef Py_ssize_t i
    cdef object size
    if type(feed) is not cnp.ndarray or (<cnp.ndarray>feed).dtype is not dtype:
        return None
    if shape is not None:
        if len(shape) != (<cnp.ndarray>feed).ndim:
            return None
        for i in range((<cnp.ndarray>feed).ndim):
            size = shape[i]
            if type(size) is int and <cnp.npy_intp>size != (<cnp.ndarray>feed).shape[i]:
                return None
    view = cnp.PyArray_View(<cnp.ndarray>feed, NULL, NULL)
    cnp.PyArray_CLEARFLAGS(view, cnp.NPY_ARRAY_WRITEABLE)
    return view


def read_only_views(dict feeds, tuple ports):
    """Return a read-only view of each port's feed, or None if there are other feeds, or if a feed is no array of its
    port's dtype and shape. Each port is a name, a dtype and a shape, as for `read_only_view`."""
    cdef list views = []
    if len(feeds) != len(ports):
        return None
    for name, dtype, shape in ports:
        view = read_only_view(feeds.get(name), dtype, shape)
        if view is None:
            return None
        views.append(view)
    return views


def are_separate(list results):
    """Return whether all results are arrays that are writable, and no two have memory of one owner."""
    cdef list owners = []
    for result in results:
        if not isinstance(result, cnp.ndarray) or not cnp.PyArray_ISWRITEABLE(<cnp.ndarray>result):
            return False
        while isinstance(result, cnp.ndarray) and cnp.PyArray_BASE(<cnp.ndarray>result) != NULL:
            result = <object>cnp.PyArray_BASE(<cnp.ndarray>result)
        for other in owners:
            if other is result:
                return False
        owners.append(result)
    return True


def is_apart(cnp.ndarray array, list arguments, Py_ssize_t skipped):
    """Return whether an array shares no memory with the arguments, except the argument at `skipped`. Compare the bounds
    of the memory of the arrays."""
    cdef uintptr_t low, high, other_low, other_high
    cdef Py_ssize_t i
    cdef object other
    bounds(array, &low, &high)
    for i in range(len(arguments)):
        other = arguments[i]
        if i == skipped or other is None:
            continue
        if not isinstance(other, cnp.ndarray):
            return False
        bounds(<cnp.ndarray>other, &other_low, &other_high)
        if low < other_high and other_low < high:
            return False
    return True


def is_same_memory(cnp.ndarray a, cnp.ndarray b):
    """Return whether two arrays of one type refer to the same elements in memory."""
    cdef size_t size = a.ndim * sizeof(cnp.npy_intp)
    return (a.ndim == b.ndim and cnp.PyArray_TYPE(a) == cnp.PyArray_TYPE(b)
            and cnp.PyArray_DATA(a) == cnp.PyArray_DATA(b)
            and memcmp(cnp.PyArray_DIMS(a), cnp.PyArray_DIMS(b), size) == 0
            and memcmp(cnp.PyArray_STRIDES(a), cnp.PyArray_STRIDES(b), size) == 0)
