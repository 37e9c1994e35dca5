"""A sequence of calls, whose arguments and results are in slots."""

from cpython.ref cimport Py_INCREF
from cpython.tuple cimport PyTuple_New, PyTuple_SET_ITEM
cimport int8blas.core.cnumpy as cnp
import numpy as np

from int8blas.core.turns cimport enter_run, leave_run

cnp.import_array()

cdef object SCALAR = np.generic


def run_calls(list calls, list slots, described):
    """Run calls in their order.

    Parameters
    ----------
    calls : list of tuple
        Each call is a function, the slots of its arguments, the slots of its results, the slots that become None after
        the call, and an object that stands for the call in errors.
    slots : list
        The values.
    described : callable
        Takes an error and the object of its call, and returns the error to raise. It does not raise the error itself:
        the error would then refer to the callable's frame, and the frame to the error, so the arrays would live until
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


cdef object as_result(object value):
    """Return a value unchanged, or a scalar of NumPy as an array."""
    return np.asarray(value) if isinstance(value, SCALAR) else value
