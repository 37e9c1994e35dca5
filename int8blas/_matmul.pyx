"""``matmul``: the shapes of numpy.matmul on the same GEMM."""

from libc.stddef cimport ptrdiff_t
from libc.stdint cimport int64_t
cimport numpy as cnp
import numpy as np

from int8blas._arrays cimport check_numerics, int8_operand, output
from int8blas._plan cimport Gemm
from int8blas._problem cimport Stack, is_usable, run, run_stack, set_a, set_b, set_c, set_zero_point, start
from int8blas.packing cimport PackedB

cnp.import_array()


cdef object vector_to_matrix(cnp.ndarray array, str name, int axis):
    """numpy.matmul's rule for 1-D operands: a becomes a row, b a column."""
    if array.ndim == 0:
        raise ValueError(f"{name} must have at least 1 dimension, got a scalar")
    return array if array.ndim > 1 else np.expand_dims(array, axis)


def matmul(a, b, *, out=None, ao=0, bo=0, numerics="exact"):
    """The exact product of 8-bit arrays, with the shapes of :func:`numpy.matmul`.

    Parameters
    ----------
    a, b : array_like of uint8 or int8
        Matrices, stacks of matrices, or vectors, in any of the four combinations of types and with any strides. Leading
        dimensions are broadcast. `b` may be a :class:`PackedB`.
    out : ndarray of int32, optional
        Where to store the result; it must have the result's shape, and may have any strides.
    ao, bo : int, or array_like of int, optional
        Zero points, subtracted from `a` and `b`: one value, or one for each row of `a`'s and for each column of `b`'s
        matrices.
    numerics : {'exact', 'saturating'}, optional
        As in :func:`gemm_u8s8s32`.

    Returns
    -------
    ndarray of int32
        ``out`` if it is given; an int32 scalar if both operands are vectors. Results beyond int32 saturate.

    Raises
    ------
    TypeError, ValueError
        If an argument is not as above, before anything is written.

    Examples
    --------
    >>> import numpy as np, int8blas
    >>> a = np.full((5, 2, 3), 100, np.uint8)
    >>> int8blas.matmul(a, np.full(3, -100, np.int8)).shape
    (5, 2)
    >>> int8blas.matmul(a[0], np.full((3, 1), -100, np.int8), ao=99)
    array([[-300],
           [-300]], dtype=int32)
    """
    cdef Gemm g
    cdef cnp.ndarray x = int8_operand(a, "a"), y, target, _ao_array, _bo_array
    cdef PackedB packed = None
    cdef tuple batch
    cdef bint in_place = True
    start(&g, check_numerics(numerics))
    a_is_vector, b_is_vector = x.ndim == 1, False
    x = vector_to_matrix(x, "a", 0)
    set_a(&g, x, False)
    if isinstance(b, PackedB):
        packed = b
        packed.fill(&g)
        g.n = packed._n
        b_rows, b_unsigned, b_batch, y = packed._k, packed._typenum == cnp.NPY_UINT8, (), None
    else:
        y = int8_operand(b, "b")
        b_is_vector = y.ndim == 1
        y = vector_to_matrix(y, "b", 1)
        set_b(&g, y, False)
        b_rows, b_unsigned, b_batch = y.shape[y.ndim - 2], g.b_flip != 0, (<object>y).shape[:-2]
    if b_rows != g.k:
        raise ValueError(f"b must have {g.k} rows, as a has {g.k} columns, got {b_rows}")
    try:
        batch = np.broadcast_shapes((<object>x).shape[:-2], b_batch) if x.ndim > 2 or b_batch else ()
    except ValueError:
        raise ValueError(f"b must have leading dimensions that broadcast with a's {(<object>x).shape[:-2]}, got "
                         f"{b_batch}") from None
    _ao_array = set_zero_point(ao, "ao", g.a_flip == 0, g.m, "a row of a each", 128 if g.a_flip else 0, &g.ao,
                               &g.ao_rows)
    _bo_array = set_zero_point(bo, "bo", b_unsigned, g.n, "a column of b each", -128 if b_unsigned else 0, &g.bo,
                               &g.bo_cols)
    # The result with both matrix dimensions, and the axes that vectors lose.
    shape = (*batch, g.m, g.n)
    vector_axes = (*((len(batch),) if a_is_vector else ()), *((len(batch) + 1,) if b_is_vector else ()))
    final_shape = shape if not vector_axes else tuple(n for axis, n in enumerate(shape) if axis not in vector_axes)
    if out is None:
        target = np.empty(shape, np.int32)
    else:
        out_array = output(out, "out")
        if (<object>out_array).shape != final_shape:
            raise ValueError(f"out must have shape {final_shape}, got {(<object>out_array).shape}")
        in_place = is_usable(out_array, x, b if packed is not None else y)
        if in_place:
            target = np.expand_dims(out_array, vector_axes) if vector_axes else out_array
        else:
            target = np.empty(shape, np.int32)
    if packed is not None:
        packed.fill_split(&g, cnp.PyArray_SIZE(target) // max(1, g.n))
    if batch:
        multiply_batch(&g, x, y, target, batch)
    else:
        set_c(&g, target)
        run(&g, "matmul")
    if out is None:
        return target.reshape(final_shape)[()] if vector_axes else target
    if not in_place:
        out_array[...] = target.reshape(final_shape)
    return out


cdef int multiply_batch(Gemm *g, cnp.ndarray x, cnp.ndarray y, cnp.ndarray target, tuple batch) except -1:
    """One GEMM for each matrix of the broadcast stacks; a stack times one matrix is one GEMM where memory allows."""
    cdef Stack s
    cdef int axis
    if (y is None or y.ndim == 2) and g.ao_rows is NULL and target.size:
        rows, result = merge_stack(x), merge_stack(target)
        if rows is not None and result is not None:
            set_a(g, rows, False)
            set_c(g, result)
            return run(g, "matmul")
    set_c(g, target)
    s.dims, s.count = len(batch), 1
    for axis in range(s.dims):
        s.shape[axis] = batch[axis]
        s.count *= s.shape[axis]
        s.c[axis] = target.strides[axis]
    set_steps(s.a, x, s.dims)
    if y is not None:
        set_steps(s.b, y, s.dims)
    return run_stack(g, &s, "matmul")


cdef void set_steps(ptrdiff_t *steps, cnp.ndarray array, int dims) noexcept:
    """Distances between the matrices of an operand that is broadcast to a stack of `dims` dimensions."""
    cdef int axis, own = cnp.PyArray_NDIM(array) - 2 - dims  # the axis of `array` before its first one, if negative
    for axis in range(dims):
        steps[axis] = 0
        if axis + own >= 0 and cnp.PyArray_DIM(array, axis + own) != 1:
            steps[axis] = cnp.PyArray_STRIDE(array, axis + own)


cdef cnp.ndarray merge_stack(cnp.ndarray array):
    """A stack of matrices as one matrix with all their rows; None if its strides do not allow that without a copy."""
    cdef int64_t rows = 1
    shape, strides = (<object>array).shape, (<object>array).strides
    for size in shape[:-1]:
        rows *= size
    for axis in range(array.ndim - 2):
        if strides[axis] != strides[axis + 1] * shape[axis + 1]:
            return None
    return np.lib.stride_tricks.as_strided(array, (rows, shape[-1]), strides[-2:])
