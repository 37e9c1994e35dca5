"""Element-wise operators on quantized tensors, and concatenation, modelled on oneDNN's primitives of these names."""

from math import prod
from sys import maxsize

from libc.stdint cimport int64_t
cimport cython
cimport int8blas.core.cnumpy as cnp
import numpy as np

from int8blas.core.arrays cimport (
    axis_from, by_tensor, choice, divisor, elements, elements_output, items_of, real, scale_from)
from int8blas.core.kernels cimport I8_ADD
from int8blas.core.results cimport (
    MAX_DIMS, Layout, check_layout, empty, empty_in_order, empty_like, lay_out, view_of)
from int8blas.core.threads cimport THREAD_BYTES
from int8blas.elementwise.elements cimport clash, copy_bytes, share_memory
from int8blas.elementwise.epilogue cimport (
    broadcast, checked_ops, compute, destination, epilogue_of, finished, part_of, post_ops_of, type_of,
    zero_point_from)
from int8blas.elementwise.fused cimport (
    Replay, ReplayParts, Step, copying, fuse, looking_up, reading, replay, replay_parts, run)
from int8blas.stage.output_stage cimport binary_kind, element_type
from int8blas.core.traced import traced
from int8blas.core.words import shown
from int8blas.stage.attributes import BINARY
from int8blas.stage.layer_arguments import DST_DTYPES, check_dtype

cnp.import_array()

# The size of the largest element of results, in bytes.
cdef int LARGEST_ELEMENT = 4

cdef tuple BYTES = (cnp.NPY_UINT8, cnp.NPY_INT8)
# The tensors of `binary`.
cdef tuple PAIR = ("src0", "src1", "dst")
# `concat` copies contiguous sources of at most FEW_BYTES with NumPy instead of jobs, because jobs would copy these
# sources on one thread, and making two jobs takes 2 us. For sources of at most FEW_BYTES, jobs are faster than NumPy
# only with more than FEW_PIECES pieces and an average of less than SHORT_PIECE bytes. NumPy copies sources with gaps,
# or in another order, 1.2 to 5 times as fast as jobs (Zen 5).
cdef int64_t FEW_PIECES = 256, SHORT_PIECE = 16, FEW_BYTES = THREAD_BYTES
# The schemes that round results to integers.
cdef tuple SCHEMES = ("float", "onnx")

cdef tuple TYPES = (cnp.NPY_UINT8, cnp.NPY_INT8, cnp.NPY_INT32, cnp.NPY_FLOAT32, cnp.NPY_FLOAT16)


# Arguments

cdef float factor_from(list values, Py_ssize_t i) except? -1:
    """Return scale number i, which is finite and may be 0. Formatting the name of a scale takes longer than the check,
    so the function formats the name only for an error."""
    cdef object value = values[i]
    cdef float factor
    if type(value) is float or (type(value) is int and value == 1):
        factor = <float><double>value
    else:
        factor = <float>real(value, f"scales[{i}]")
    if factor - factor != 0:
        raise ValueError(f"scales[{i}] must be finite in float32, got {shown(value)}")
    return factor


cdef Step source_step(list arrays, Py_ssize_t i, float scale, list zero_points):
    """Return the step that reads source i and applies its scale and zero point."""
    cdef cnp.ndarray array = arrays[i]
    cdef float zero = 0
    if type(zero_points[i]) is not int or zero_points[i] != 0:
        zero = zero_point_from(zero_points[i], f"zero_points[{i}]", cnp.PyArray_TYPE(array))
    return reading(array, scale, zero)


cdef float scale_of_source(list scales, Py_ssize_t i) except? -1:
    if type(scales[i]) is int and scales[i] == 1:
        return 1
    return scale_from(scales[i], f"scales[{i}]")


cdef list sources(object srcs):
    """Return the sources, at least one array."""
    cdef list arrays = []
    for src in items_of(srcs, "srcs"):
        if type(src) is cnp.ndarray and cnp.PyArray_TYPE(src) in BYTES:
            arrays.append(src)
        else:
            arrays.append(elements(src, f"srcs[{len(arrays)}]", TYPES))
    if not arrays:
        raise ValueError("srcs must have at least one array, got none")
    return arrays


cdef list one_for_each(object values, str name, Py_ssize_t count, object default):
    """Return a list of `count` values, one for each source."""
    if values is None:
        return [default] * count
    cdef list items = items_of(values, name)
    if len(items) != count:
        raise ValueError(f"{name} must have {count} values, one for each source, got {len(items)}")
    return items


cdef tuple broadcast_shape(tuple first, tuple second):
    """Return the common shape of the sources of `binary`."""
    cdef Py_ssize_t ndim = max(len(first), len(second)), d, lead, left, right
    cdef list shape = [0] * ndim
    for d in range(ndim):
        lead = d - ndim
        left = first[lead] if -lead <= len(first) else 1
        right = second[lead] if -lead <= len(second) else 1
        if left != right and left != 1 and right != 1:
            raise ValueError(f"src1 must have a shape that broadcasts against {first} of src0, got {second}")
        shape[d] = right if left == 1 else left
    check_size(shape, "src0 and src1")
    return tuple(shape)


cdef bint fits(cnp.ndarray x, cnp.ndarray y) noexcept:
    """Return whether x broadcasts to the shape of y."""
    cdef int lead = cnp.PyArray_NDIM(y) - cnp.PyArray_NDIM(x), d
    for d in range(cnp.PyArray_NDIM(x)):
        if lead < 0 or (cnp.PyArray_DIM(x, d) != 1 and cnp.PyArray_DIM(x, d) != cnp.PyArray_DIM(y, d + lead)):
            return False
    return lead >= 0


cdef int check_size(shape, str name) except -1:
    """Check that the result has fewer bytes than can be addressed."""
    cdef double size = LARGEST_ELEMENT
    for count in shape:
        size *= max(<double>count, 1)
    # For a small result, the exact product of Python's integers would take as long as all other work.
    if size > 1e15 and prod([count for count in shape if count]) * LARGEST_ELEMENT > maxsize:
        raise ValueError(f"{name} must have a result of less than {maxsize} bytes, got the shape {tuple(shape)}")
    return 0


cdef bint alike_except(cnp.ndarray x, cnp.ndarray y, int axis) noexcept:
    """Return whether two arrays have the same shape, apart from the size along an axis."""
    cdef int d
    if cnp.PyArray_NDIM(x) != cnp.PyArray_NDIM(y):
        return False
    for d in range(cnp.PyArray_NDIM(x)):
        if d != axis and cnp.PyArray_DIM(x, d) != cnp.PyArray_DIM(y, d):
            return False
    return True


cdef bint is_onnx(object scheme, int typenum) except -1:
    """Return whether results are rounded like results of ONNX's QuantizeLinear."""
    cdef bint onnx = choice(scheme, "scheme", SCHEMES) == 1
    if onnx and typenum not in (cnp.NPY_UINT8, cnp.NPY_INT8, cnp.NPY_INT32):
        raise TypeError("dst_dtype must be uint8, int8 or int32 with scheme='onnx', got "
                        f"{cnp.PyArray_DescrFromType(typenum)}")
    return onnx


# Functions

@traced("src")
def eltwise(src, ops, *, scales=None, zero_points=None, dst_dtype=None, scheme="float", out=None):
    """Apply element-wise operators to a quantized tensor.

    ::

        y = scales["src"] * (f32(src) - f32(zero_points["src"]))
        y = op(y)                                                               for each of `ops`
        dst = sat(rne(y * (1 / scales["dst"]) + zero_points["dst"]))            integers
        dst = sat(rne(y / scales["dst"]) + zero_points["dst"])                  integers, with scheme="onnx"
        dst = y * (1 / scales["dst"]), rounded to the type                      float32, float16, bfloat16

    The operations are in float32, in this order, and each operation is rounded once. float32 cannot represent every
    int32 beyond 2**24. If ``y * (1 / scale)`` is NaN, an integer result is the zero point.

    Parameters
    ----------
    src : array_like of uint8, int8, int32, float32, float16 or bfloat16
        The tensor, of any shape and with any strides.
    ops : Eltwise, or sequence of post-ops
        One function, such as ``ReLU()`` or ``Eltwise("gelu_erf")``, or a sequence of :class:`Eltwise`, :class:`Binary`,
        :class:`PReLU` and :class:`Sum`, applied in order. Operands broadcast to the shape of `src`. An empty sequence
        only converts `src`.
    scales : mapping of str to float, optional
        The scales of "src" and "dst": finite and not 0 when rounded to float32, and the scale of "dst" more than
        2**-128 in magnitude; 1 by default.
    zero_points : mapping of str to int, optional
        The zero points of "src" and "dst", any int32; 0 by default. With scheme="onnx" the zero point of "dst" must be
        in the range of its dtype. Float tensors have no zero point.
    dst_dtype : dtype, optional
        uint8, int8, int32, float32, float16 or bfloat16; by default the dtype of `src`.
    scheme : {'float', 'onnx'}, optional
        The rounding of integers (see above). "onnx" is the rounding of ONNX's QuantizeLinear.
    out : ndarray of `dst_dtype`, optional
        The array for the result. The array must have the shape of `src`, may have any strides and may overlap `src`. A
        Sum post-op adds to the old content of the array.

    Returns
    -------
    ndarray of `dst_dtype`
        ``out`` if it is given; a scalar if `src` has no dimensions.

    Raises
    ------
    TypeError, ValueError
        If an argument is not as described above. Nothing is written then.

    See Also
    --------
    Eltwise : the functions and their formulas.
    binary : functions of two tensors.

    Notes
    -----
    This is oneDNN's primitive "eltwise", with scales. Results have the same bits on every CPU and with any number of
    threads. `eltwise` computes the 256 results of a function from 8 bits to 8 bits once, and then looks them up.

    Examples
    --------
    >>> import numpy as np, int8blas
    >>> x = np.array([-100, -20, 0, 20, 100], np.int8)
    >>> int8blas.eltwise(x, int8blas.Eltwise("tanh"), scales={"src": 0.05, "dst": 1 / 127})
    array([-127,  -97,    0,   97,  127], dtype=int8)
    >>> int8blas.eltwise(x, int8blas.ReLU(0.1), dst_dtype=np.float32)
    array([-10.,  -2.,   0.,  20., 100.], dtype=float32)
    """
    cdef cnp.ndarray array = elements(src, "src", TYPES)
    cdef int typenum = type_of(dst_dtype, array)
    cdef bint onnx = is_onnx(scheme, typenum)
    return finished(array, epilogue_of(array, scales, zero_points, ops, typenum, "ops", onnx), out)


@cython.final
cdef class PreparedEltwise:
    """A function that applies :func:`eltwise` to real numbers, with the same `ops` in each call."""

    cdef tuple ops
    cdef Replay known               # the replay of the last call, or None

    def __init__(self, ops):
        self.ops = checked_ops(ops, "ops")

    def __call__(self, cnp.ndarray src not None, cnp.ndarray spare=None):
        """Return the result for an array of floats. The result may be in `spare`, which may be `src`."""
        cdef Replay known = self.known  # another thread may replace self.known
        cdef cnp.ndarray array, target = None if known is None else known.run(src, None, spare)
        cdef list steps
        if target is not None:
            return target
        array = elements(src, "src", TYPES)
        target = destination(None, cnp.PyArray_TYPE(array), array)
        steps = [reading(array, 1, 0), *post_ops_of(self.ops, "ops", target, False)]
        if not (cnp.PyArray_NDIM(target) and cnp.PyArray_SIZE(target)):
            return compute(steps, target, None, 1, 0)
        job = fuse(steps, target, 1, 0)
        run([job])
        self.known = replay(job, [array, target])
        return target


@traced("src0", "src1")
def binary(op, src0, src1, *, scales=None, zero_points=None, post_ops=(), dst_dtype=None, scheme="float", out=None):
    """Apply a binary operation to two quantized tensors, element by element.

    ::

        y0 = scales["src0"] * (f32(src0) - f32(zero_points["src0"]))
        y1 = scales["src1"] * (f32(src1) - f32(zero_points["src1"]))
        y = post_ops(y0 op y1)
        dst = sat(rne(y * (1 / scales["dst"]) + zero_points["dst"]))            integers
        dst = sat(rne(y / scales["dst"]) + zero_points["dst"])                  integers, with scheme="onnx"
        dst = y * (1 / scales["dst"]), rounded to the type                      float32, float16, bfloat16

    The operations are in float32, in this order, and each operation is rounded once. float32 cannot represent every
    int32 beyond 2**24. If ``y * (1 / scale)`` is NaN, an integer result is the zero point.

    Parameters
    ----------
    op : {'add', 'sub', 'mul', 'div', 'min', 'max', 'ge', 'gt', 'le', 'lt', 'eq', 'ne'}
        The operation. A comparison gives 1 if it is true, else 0. A comparison with NaN gives 0, but 'ne' gives 1.
    src0, src1 : array_like of uint8, int8, int32, float32, float16 or bfloat16
        The tensors, with any strides. Shapes broadcast as in NumPy, and dtypes may differ.
    scales : mapping of str to float, optional
        The scales of "src0", "src1" and "dst": finite and not 0 when rounded to float32, and the scale of "dst" more
        than 2**-128 in magnitude; 1 by default.
    zero_points : mapping of str to int, optional
        The zero points of "src0", "src1" and "dst", any int32; 0 by default. With scheme="onnx" the zero point of "dst"
        must be in the range of its dtype. Float tensors have no zero point.
    post_ops : post-op, or sequence of them, optional
        Post-ops that are applied to y before it is stored, as in :func:`eltwise`.
    dst_dtype : dtype, optional
        uint8, int8, int32, float32, float16 or bfloat16; by default the dtype of `src0`.
    scheme : {'float', 'onnx'}, optional
        The rounding of integers (see above). "onnx" is the rounding of ONNX's QuantizeLinear.
    out : ndarray of `dst_dtype`, optional
        The array for the result. The array must have the common shape of the sources, may have any strides and may
        overlap the sources. A Sum post-op adds to the old content of the array.

    Returns
    -------
    ndarray of `dst_dtype`
        ``out`` if it is given, otherwise a new array, or a scalar if the result has no dimensions.

    Raises
    ------
    TypeError, ValueError
        If an argument is not as described above. Nothing is written then.

    See Also
    --------
    sum : add any number of tensors of one shape.

    Notes
    -----
    This is oneDNN's primitive "binary". Results have the same bits on every CPU and with any number of threads.

    Examples
    --------
    A residual connection, with its ReLU:

    >>> import numpy as np, int8blas
    >>> x, y = np.array([[10, 200], [90, 50]], np.uint8), np.array([[30, 250], [0, 128]], np.uint8)
    >>> int8blas.binary("add", x, y, scales={"src0": 0.02, "src1": 0.05, "dst": 0.05}, zero_points={"src1": 128},
    ...                 post_ops=int8blas.ReLU())
    array([[  0, 202],
           [  0,  20]], dtype=uint8)
    >>> int8blas.binary("mul", x, np.array([2, 0.5], np.float32))
    array([[ 20, 100],
           [180,  25]], dtype=uint8)
    """
    cdef cnp.ndarray first = elements(src0, "src0", TYPES), second = elements(src1, "src1", TYPES)
    cdef PreparedBinary prepared = PreparedBinary.__new__(PreparedBinary)
    prepared.prepare(op, cnp.PyArray_TYPE(first), cnp.PyArray_TYPE(second), scales, zero_points, post_ops, dst_dtype,
                     scheme)
    return prepared.apply(first, second, out, False)


@cython.final
cdef class PreparedBinary:
    """Apply :func:`binary` to sources of the types `src_dtypes`. The constructor checks all other arguments."""

    cdef int kind, typenum
    cdef float scales[3]            # scales of both sources and of the destination
    cdef float zeros[3]
    cdef int types[2]
    cdef bint onnx
    cdef tuple post_ops
    cdef Replay known               # the replay of the last call, or None

    def __init__(self, op, src_dtypes, *, scales=None, zero_points=None, post_ops=(), dst_dtype=None, scheme="float"):
        self.prepare(op, src_dtypes[0].num, src_dtypes[1].num, scales, zero_points, post_ops, dst_dtype, scheme)

    cdef int prepare(self, object op, int first, int second, object scales, object zero_points, object post_ops,
                     object dst_dtype, object scheme) except -1:
        cdef dict values
        cdef int i
        self.kind = binary_kind(BINARY[choice(op, "op", BINARY)])
        self.types[0], self.types[1] = first, second
        self.typenum = self.types[0] if dst_dtype is None else check_dtype(dst_dtype, "dst_dtype", DST_DTYPES).num
        self.onnx = is_onnx(scheme, self.typenum)
        self.post_ops = checked_ops(post_ops, "post_ops")
        for i in range(3):
            self.scales[i], self.zeros[i] = 1, 0
        if scales is not None:
            values = by_tensor(scales, "scales", PAIR)
            self.scales[0] = scale_from(values.get("src0", 1), "scales['src0']")
            self.scales[1] = scale_from(values.get("src1", 1), "scales['src1']")
            self.scales[2] = divisor(values.get("dst", 1), "scales['dst']")
        if zero_points is not None:
            values = by_tensor(zero_points, "zero_points", PAIR)
            self.zeros[0] = zero_point_from(values.get("src0", 0), "zero_points['src0']", self.types[0])
            self.zeros[1] = zero_point_from(values.get("src1", 0), "zero_points['src1']", self.types[1])
            self.zeros[2] = zero_point_from(values.get("dst", 0), "zero_points['dst']", self.typenum, self.onnx)
        return 0

    def __call__(self, cnp.ndarray src0 not None, cnp.ndarray src1 not None):
        """Return the result for two arrays of these types."""
        cdef Replay known = self.known  # another thread may replace self.known
        cdef cnp.ndarray result = None if known is None else known.run(src0, src1)
        if result is not None:
            return result
        src0, src1 = elements(src0, "src0", TYPES), elements(src1, "src1", TYPES)
        if cnp.PyArray_TYPE(src0) != self.types[0] or cnp.PyArray_TYPE(src1) != self.types[1]:
            wanted = [cnp.PyArray_DescrFromType(number).name for number in self.types]
            raise TypeError(f"src0 and src1 must be {wanted[0]} and {wanted[1]}, got {src0.dtype} and {src1.dtype}")
        return self.apply(src0, src1, None, True)

    cdef object apply(self, cnp.ndarray first, cnp.ndarray second, object out, bint again):
        cdef object job
        cdef tuple shape = None, whole
        cdef cnp.ndarray target, like = first, x = first, y = second
        cdef Step step
        cdef list steps
        if not cnp.PyArray_SAMESHAPE(first, second) and fits(second, first):
            whole = (<object>first).shape
            check_size(whole, "src0 and src1")
            y = broadcast(second, whole, "src1")
        elif not cnp.PyArray_SAMESHAPE(first, second):
            shape = broadcast_shape((<object>first).shape, (<object>second).shape)
            like = first if (<object>first).shape == shape else second
            x, y = broadcast(first, shape, "src0"), broadcast(second, shape, "src1")
        steps = [reading(x, self.scales[0], self.zeros[0])]
        step = reading(y, self.scales[1], self.zeros[1])
        step.op.kind = self.kind
        steps.append(step)
        target = destination(out, self.typenum, like, shape)
        steps += post_ops_of(self.post_ops, "post_ops", target, out is not None)
        if not (again and cnp.PyArray_NDIM(target) and cnp.PyArray_SIZE(target)):
            return compute(steps, target, out, self.scales[2], self.zeros[2], self.onnx)
        job = fuse(steps, target, self.scales[2] if self.onnx else <float>1 / self.scales[2], self.zeros[2], self.onnx)
        run([job])
        self.known = replay(job, [first, second, target])
        return target


@traced("srcs")
def sum(srcs, *, scales=None, zero_points=None, post_ops=(), dst_scale=1, dst_zero_point=0, dst_dtype=None, out=None):
    """Return the sum of quantized tensors of one shape.

    ::

        y = scales[0] * (f32(srcs[0]) - f32(zero_points[0]))
        y = y + scales[i] * (f32(srcs[i]) - f32(zero_points[i]))                for i = 1, 2, ...
        y = post_ops(y)
        dst = sat(rne(y * (1 / dst_scale) + dst_zero_point))                    integers
        dst = y * (1 / dst_scale), rounded to the type                          float32, float16, bfloat16

    The operations are in float32, in this order, and each operation is rounded once. float32 cannot represent every
    int32 beyond 2**24. If ``y * (1 / dst_scale)`` is NaN, an integer result is the zero point.

    Parameters
    ----------
    srcs : sequence of array_like of uint8, int8, int32, float32, float16 or bfloat16
        At least one array. All arrays have one shape; their strides and dtypes may differ.
    scales : sequence of float, optional
        A scale for each source, by default 1. Scales are finite when rounded to float32, and may be negative or 0.
    zero_points : sequence of int, optional
        A zero point for each source, any int32; 0 by default. Float tensors have no zero point.
    post_ops : post-op, or sequence of them, optional
        Post-ops that are applied to y before it is stored, as in :func:`eltwise`.
    dst_scale : float, optional
        The scale of the result. When rounded to float32 it is finite, and more than 2**-128 in magnitude.
    dst_zero_point : int, optional
        The zero point of the result: any int32, or 0 for floats.
    dst_dtype : dtype, optional
        uint8, int8, int32, float32, float16 or bfloat16; by default the dtype of the first source.
    out : ndarray of `dst_dtype`, optional
        The array for the result, with the shape of the sources and any strides. It may overlap the sources.

    Returns
    -------
    ndarray of `dst_dtype`
        ``out`` if it is given, otherwise a new array, or a scalar if the result has no dimensions.

    Raises
    ------
    TypeError, ValueError
        If an argument is not as described above. Nothing is written then.

    See Also
    --------
    binary : add two tensors, with broadcasting.

    Notes
    -----
    This is oneDNN's primitive "sum", with zero points. Results have the same bits on every CPU and with any number of
    threads.

    Examples
    --------
    >>> import numpy as np, int8blas
    >>> x, y, z = np.array([[10, 20], [100, 200], [1, 2]], np.uint8)
    >>> int8blas.sum([x, y, z], scales=[0.5, 0.25, 2], dst_scale=0.5)
    array([ 64, 128], dtype=uint8)
    """
    cdef list arrays = sources(srcs), steps = []
    cdef cnp.ndarray first = arrays[0], array, target
    cdef int typenum = type_of(dst_dtype, first)
    cdef float scale = divisor(dst_scale, "dst_scale")
    cdef float zero = zero_point_from(dst_zero_point, "dst_zero_point", typenum)
    cdef Step step
    scales = one_for_each(scales, "scales", len(arrays), 1)
    zero_points = one_for_each(zero_points, "zero_points", len(arrays), 0)
    for i, array in enumerate(arrays):
        if not cnp.PyArray_SAMESHAPE(array, first):
            raise ValueError(f"srcs[{i}] must have shape {(<object>first).shape}, as srcs[0] has, got "
                             f"{(<object>array).shape}")
        step = source_step(arrays, i, factor_from(scales, i), zero_points)
        step.op.kind = I8_ADD
        steps.append(step)
    target = destination(out, typenum, first)
    steps += post_ops_of(checked_ops(post_ops, "post_ops"), "post_ops", target, out is not None)
    return compute(steps, target, out, scale, zero)


cdef cnp.ndarray joined(list arrays, int along, int typenum):
    """Return the concatenation of arrays that are C-contiguous, not empty, and of one type. Return None for other
    arrays, if shapes differ, or if there are many pieces or bytes."""
    cdef cnp.npy_intp sizes[MAX_DIMS]
    cdef cnp.ndarray first = arrays[0], array, result
    cdef int64_t pieces = len(arrays), size = 0, piece, i
    cdef int d
    cdef char *to
    for d in range(first.ndim):
        sizes[d] = cnp.PyArray_DIM(first, d)
        if d < along:
            pieces *= sizes[d]
    sizes[along] = 0
    for array in arrays:
        if not (cnp.PyArray_TYPE(array) == typenum and cnp.PyArray_IS_C_CONTIGUOUS(array) and cnp.PyArray_SIZE(array)
                and alike_except(first, array, along)):
            return None
        sizes[along] += cnp.PyArray_DIM(array, along)
        size += cnp.PyArray_NBYTES(array)
    if size > FEW_BYTES or (pieces > FEW_PIECES and size < SHORT_PIECE * pieces):
        return None
    result = empty(first.ndim, sizes, typenum)
    to = cnp.PyArray_BYTES(result)
    pieces //= len(arrays)
    for array in arrays:
        piece = cnp.PyArray_NBYTES(array) // pieces
        for i in range(pieces):
            copy_bytes(to + i * (size // pieces), cnp.PyArray_BYTES(array) + i * piece, piece)
        to += piece
    return result


cdef inline bint is_copied(Step source, int typenum, float scale, float zero):
    """Return whether `concat` copies a source."""
    return cnp.PyArray_TYPE(source.array) == typenum and source.scale == scale and source.zero == zero


cdef bint all_copied(list steps, int typenum, float scale, float zero):
    cdef Step step
    for step in steps:
        if not is_copied(step, typenum, scale, zero):
            return False
    return True


cdef bint all_contiguous(list arrays):
    cdef cnp.ndarray array
    for array in arrays:
        if not cnp.PyArray_IS_C_CONTIGUOUS(array):
            return False
    return True


cdef object size_along(list arrays, const Layout *first, int along):
    """Return the size of the concatenation along an axis, which may exceed 64 bits, or raise an error for shapes that
    do not match. `first` is the layout of the first array at the beginning of the call."""
    cdef cnp.ndarray array
    cdef object size = 0
    check_layout(first, arrays[0], "srcs[0]")
    for i, array in enumerate(arrays):
        if not alike_except(arrays[0], array, along):
            raise ValueError(f"srcs[{i}] must have the shape of srcs[0], {arrays[0].shape}, except in dimension "
                             f"{along}, got {(<object>array).shape}")
        size += cnp.PyArray_DIM(array, along)
    return size


@traced("srcs")
def concat(srcs, axis, *, scales=None, zero_points=None, post_ops=(), dst_scale=1, dst_zero_point=0, dst_dtype=None,
           out=None):
    """Concatenate quantized tensors along a dimension.

    Without post-ops, a source that has the dtype, the scale and the zero point of the destination is copied. Each
    element of a source that is not copied becomes ::

        y = scales[i] * (f32(srcs[i]) - f32(zero_points[i]))
        y = post_ops(y)
        dst = sat(rne(y * (1 / dst_scale) + dst_zero_point))                    integers
        dst = y * (1 / dst_scale), rounded to the type                          float32, float16, bfloat16

    The operations are in float32, in this order, and each operation is rounded once. float32 cannot represent every
    int32 beyond 2**24. If ``y * (1 / dst_scale)`` is NaN, an integer result is the zero point.

    Parameters
    ----------
    srcs : sequence of array_like of uint8, int8, int32, float32, float16 or bfloat16
        At least one array, with any strides. The sizes along `axis` may differ, and so may the dtypes.
    axis : int
        The dimension along which the sources are concatenated.
    scales : sequence of float, optional
        A scale for each source, finite and not 0 when rounded to float32; 1 by default.
    zero_points : sequence of int, optional
        A zero point for each source, any int32; 0 by default. Float tensors have no zero point.
    post_ops : post-op, or sequence of them, optional
        Post-ops that are applied to y before it is stored, as in :func:`eltwise`. Operands broadcast to the shape of
        the result.
    dst_scale : float, optional
        The scale of the result. When rounded to float32 it is finite, and more than 2**-128 in magnitude.
    dst_zero_point : int, optional
        The zero point of the result: any int32, or 0 for floats.
    dst_dtype : dtype, optional
        uint8, int8, int32, float32, float16 or bfloat16; by default the dtype of the first source.
    out : ndarray of `dst_dtype`, optional
        The array for the result. The array may have any strides and may overlap the sources.

    Returns
    -------
    ndarray of `dst_dtype`
        ``out`` if it is given, or else a new array in the memory order of the first source.

    Raises
    ------
    TypeError, ValueError
        If an argument is not as described above. Nothing is written then.

    Notes
    -----
    This is oneDNN's primitive "concat", with zero points. Results have the same bits on every CPU and with any number
    of threads.

    Examples
    --------
    >>> import numpy as np, int8blas
    >>> x, y = np.array([[1, 2], [3, 4]], np.uint8), np.array([[130], [120]], np.uint8)
    >>> int8blas.concat([x, y], 1, scales=[1, 2], zero_points=[0, 128])
    array([[1, 2, 4],
           [3, 4, 0]], dtype=uint8)
    """
    cdef list arrays = sources(srcs), fused = []
    cdef cnp.ndarray first = arrays[0], array, target, result, part
    cdef int typenum = type_of(dst_dtype, first), ndim = first.ndim, along, d
    cdef float scale = divisor(dst_scale, "dst_scale")
    cdef float zero = zero_point_from(dst_zero_point, "dst_zero_point", typenum)
    cdef cnp.npy_intp sizes[MAX_DIMS]
    cdef cnp.npy_intp start = 0
    cdef Layout layout
    cdef Step step
    lay_out(&layout, first)
    if ndim == 0:
        raise ValueError("srcs[0] must have at least one dimension, got none")
    along = axis_from(axis, "axis", ndim)
    check_layout(&layout, first, "srcs[0]")
    if (scales is None and zero_points is None and type(post_ops) is tuple and not post_ops and scale == 1 and zero == 0
            and out is None and element_type(typenum) >= 0):
        result = joined(arrays, along, typenum)
        if result is not None:
            return result
    scales = one_for_each(scales, "scales", len(arrays), 1)
    zero_points = one_for_each(zero_points, "zero_points", len(arrays), 0)
    steps = [source_step(arrays, i, scale_of_source(scales, i), zero_points) for i in range(len(arrays))]
    checked = checked_ops(post_ops, "post_ops")
    shape = [layout.shape[d] for d in range(ndim)]
    shape[along] = size_along(arrays, &layout, along)
    check_size(shape, "srcs")
    for d in range(ndim):
        sizes[d] = shape[d]
    if out is None:
        result = target = empty_in_order(sizes, first, typenum)
    else:
        result = target = elements_output(out, "out", typenum, tuple(shape))
        if size_along(arrays, &layout, along) != shape[along]:
            raise ValueError(f"srcs must keep their layouts during the call, got other sizes in dimension {along}")
        for array in arrays:
            if share_memory(array, result):
                target = empty_like(result, typenum)
                break
    ops = post_ops_of(checked, "post_ops", result, out is not None)
    for step in ops:
        if target is result and step.array is not None and clash(step.array, result):
            target = empty_like(result, typenum)
    if not ops and all_copied(steps, typenum, scale, zero) and (
            cnp.PyArray_NBYTES(target) <= FEW_BYTES or not all_contiguous(arrays)):
        np.concatenate(arrays, along, target)
        steps = []
    for step in steps:
        sizes[along] = step.array.shape[along]
        part = view_of(target, ndim, sizes, target.strides,
                       cnp.PyArray_BYTES(target) + start * target.strides[along], cnp.NPY_ARRAY_WRITEABLE)
        inside = (slice(None),) * along + (slice(start, start + sizes[along]),) if ops else None
        start += sizes[along]
        if not cnp.PyArray_SIZE(part):
            continue
        if not ops and is_copied(step, typenum, scale, zero):
            fused.append(copying(step.array, part))
        else:
            fused.append(fuse([step, *[part_of(op, inside) for op in ops]], part, <float>1 / scale, zero))
    if fused:
        run(fused)
    if target is not result:
        result[...] = target
    return result if out is None else out


def look_up(src, table, *, out=None):
    """Return the elements of `table`, 256 bytes, at the indices in `src`."""
    cdef cnp.ndarray array = elements(src, "src", BYTES), values = table_of(table)
    cdef cnp.ndarray target = destination(out, cnp.PyArray_TYPE(values), array)
    if cnp.PyArray_SIZE(target):
        run([looking_up(array, values, target)])
    return target


cdef cnp.ndarray table_of(object table):
    cdef cnp.ndarray values = elements(table, "table", BYTES)
    if cnp.PyArray_SIZE(values) != 256 or not cnp.PyArray_IS_C_CONTIGUOUS(values):
        raise ValueError(f"table must have 256 contiguous elements, got shape {(<object>values).shape}")
    return values


@cython.final
cdef class PreparedTable:
    """A function that maps bytes by one table, as :func:`look_up` does."""

    cdef cnp.ndarray table
    cdef Replay known               # the replay of the last call

    def __init__(self, table):
        self.table = table_of(table).copy()

    def __call__(self, cnp.ndarray src not None):
        """Return the results for an array of uint8 or int8."""
        cdef Replay known = self.known  # another thread may replace self.known
        cdef cnp.ndarray array, target = None if known is None else known.run(src, None)
        if target is not None:
            return target
        array = elements(src, "src", BYTES)
        target = empty_like(array, cnp.PyArray_TYPE(self.table))
        if cnp.PyArray_SIZE(target):
            job = looking_up(array, self.table, target)
            run([job])
            self.known = replay(job, [array, target])
        return target


@cython.final
cdef class PreparedConcat:
    """Concatenation of bytes along an axis, for given types of the parts. If a part has a table, the table maps the
    elements of the part. All tables have the type of the result."""

    cdef list tables                # a table or None for each part
    cdef Py_ssize_t axis
    cdef int typenum
    cdef ReplayParts known          # the replay of the last call

    def __init__(self, list tables not None, Py_ssize_t axis, dtype):
        self.tables = [None if table is None else table_of(table).copy() for table in tables]
        self.axis, self.typenum = axis, dtype.num

    def __call__(self, tuple parts not None):
        """Return the result in the memory order of the first part. Return None if a part is empty, or if the shapes do
        not match."""
        cdef cnp.ndarray first = parts[0], part, table, target
        cdef cnp.npy_intp sizes[MAX_DIMS]
        cdef cnp.npy_intp begin = 0
        cdef Py_ssize_t along, i
        cdef int d
        cdef list fused = []
        along = self.axis + first.ndim if self.axis < 0 else self.axis
        if not 0 <= along < first.ndim:
            return None
        for d in range(first.ndim):
            sizes[d] = first.shape[d]
        sizes[along] = 0
        for part in parts:
            if part.ndim != first.ndim or not cnp.PyArray_SIZE(part):
                return None
            for d in range(first.ndim):
                if d != along and part.shape[d] != sizes[d]:
                    return None
            sizes[along] += part.shape[along]
        target = empty_in_order(sizes, first, self.typenum)
        lead = (slice(None),) * along
        for i in range(len(parts)):
            part, table = parts[i], self.tables[i]
            inside = target[(*lead, slice(begin, begin + part.shape[along]))]
            fused.append(copying(part, inside) if table is None else looking_up(part, table, inside))
            begin += part.shape[along]
        run(fused)
        self.known = replay_parts(fused, parts, target)
        return target

    def again(self, tuple parts not None):
        """Return the result if the parts have the types and layouts of the last call's parts, or else None."""
        cdef ReplayParts known = self.known  # another thread may replace self.known
        return None if known is None else known.run(parts)
