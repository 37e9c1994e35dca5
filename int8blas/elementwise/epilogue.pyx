"""The epilogue of element-wise primitives: scales, zero points and post-ops become steps of a fused operator.

If each element of a primitive's result depends on one element of the source, the primitive puts its own steps before
the steps of the epilogue. If an element depends on several elements, the primitive first stores its result. Then
`finished` applies the epilogue to the result::

    y = scales["src"] * (f32(result) - f32(zero_points["src"]))
    y = op(y)                                                               for each of `post_ops`
    dst = sat(rne(y * (1 / scales["dst"]) + zero_points["dst"]))            integers
    dst = sat(rne(y / scales["dst"]) + zero_points["dst"])                  integers, with `onnx`
    dst = y * (1 / scales["dst"]), rounded to the type                      float32, float16, bfloat16
"""

from libc.stdint cimport INT32_MAX, INT32_MIN, int64_t
cimport cython
cimport int8blas.core.cnumpy as cnp

from int8blas.core.arrays cimport (
    by_tensor, divisor, elements_output, elements_output_like, integers_in_range, scale_from)
from int8blas.core.results cimport empty_like, empty_of, view_of
from int8blas.elementwise.elements cimport clash
from int8blas.elementwise.fused cimport Step, fuse, reading, run
from int8blas.stage.output_stage cimport set_post_op
from int8blas.core.words import shown
from int8blas.stage.attributes import Eltwise, Sum, as_post_ops
from int8blas.stage.layer_arguments import DST_DTYPES, check_dtype

cnp.import_array()

cdef tuple TENSORS = ("src", "dst")


cdef float zero_point_from(object value, str name, int typenum, bint in_range=False) except? -1:
    """Return an int32, or 0 for a float type. With `in_range` the int32 must be in the range of the integer type."""
    cdef int64_t low = INT32_MIN, high = INT32_MAX
    cdef cnp.ndarray array
    if type(value) is int and value == 0:
        return 0
    if typenum == cnp.NPY_FLOAT32 or typenum == cnp.NPY_FLOAT16 or cnp.PyTypeNum_ISUSERDEF(typenum):
        raise ValueError(f"{name} must be 0 for {cnp.PyArray_DescrFromType(typenum)}, got {shown(value)}")
    if in_range and typenum == cnp.NPY_UINT8:
        low, high = 0, 255
    elif in_range and typenum == cnp.NPY_INT8:
        low, high = -128, 127
    array = integers_in_range(value, name, low, high, ())
    return <float>(<int *>cnp.PyArray_DATA(array))[0]


cdef int type_of(object dst_dtype, cnp.ndarray src) except -1:
    """Return the type number of the destination, by default the type of `src`."""
    if dst_dtype is None:
        return cnp.PyArray_TYPE(src)
    return check_dtype(dst_dtype, "dst_dtype", DST_DTYPES).num


cdef cnp.ndarray destination(object out, int typenum, cnp.ndarray like, tuple shape=None):
    """Return `out`, or a new array. The shape is `shape`, by default the shape of `like`. A new array of the shape of
    `like` has the memory order of `like`."""
    if shape is None or (<object>like).shape == shape:
        return empty_like(like, typenum) if out is None else elements_output_like(out, "out", typenum, like)
    return empty_of(shape, typenum) if out is None else elements_output(out, "out", typenum, shape)


cdef tuple checked_ops(object ops, str name):
    """Return a tuple of post-ops from one post-op or a sequence."""
    if type(ops) is Eltwise:
        return (ops,)
    return () if type(ops) is tuple and not ops else as_post_ops(ops, name)


cdef list post_ops_of(tuple ops, str name, cnp.ndarray target, bint is_old):
    """Return post-ops as steps; `is_old` says whether the target is the user's array."""
    cdef Step step
    cdef list steps = []
    for op in ops:
        step = reading(None, 1, 0)
        set_post_op(&step.op, op, cnp.PyArray_TYPE(target))
        steps.append(step)
        if isinstance(op, Eltwise):
            continue
        if isinstance(op, Sum):
            if not is_old:
                raise ValueError("out must be given, as a Sum post-op adds to it")
            if op.dtype is not None and target.itemsize != 1:
                raise ValueError(f"dtype of Sum must not be given for a destination of {target.dtype}")
            step.array = target if op.dtype is None else target.view(op.dtype)
        else:
            if op.operand is None:
                raise ValueError(f"{name} must have operands, got a {type(op).__name__} without one")
            step.array = broadcast(op.operand, (<object>target).shape, f"operand of {type(op).__name__}")
    return steps


cdef Step part_of(Step step, tuple inside):
    """Return the step for a part of the destination."""
    cdef Step part = reading(None if step.array is None else step.array[inside], step.scale, step.zero)
    part.op = step.op
    return part


cdef cnp.ndarray broadcast(cnp.ndarray array, tuple shape, str name):
    """Broadcast like numpy.broadcast_to. For a small result, numpy.broadcast_to takes as long as all other work."""
    cdef cnp.npy_intp sizes[cnp.NPY_MAXDIMS]
    cdef cnp.npy_intp strides[cnp.NPY_MAXDIMS]
    cdef int ndim = len(shape), lead = ndim - cnp.PyArray_NDIM(array), d
    if lead == 0 and (<object>array).shape == shape:
        return array
    if lead < 0:
        raise ValueError(f"{name} must broadcast to shape {shape}, got {(<object>array).shape}")
    for d in range(ndim):
        sizes[d], strides[d] = shape[d], 0
        if d >= lead and cnp.PyArray_DIM(array, d - lead) != 1:
            if cnp.PyArray_DIM(array, d - lead) != sizes[d]:
                raise ValueError(f"{name} must broadcast to shape {shape}, got {(<object>array).shape}")
            strides[d] = cnp.PyArray_STRIDE(array, d - lead)
    return view_of(array, ndim, sizes, strides, cnp.PyArray_BYTES(array), 0)


cdef object compute(list steps, cnp.ndarray array, object out, float scale, float zero, bint onnx=False):
    """Run fused steps, and store the result in `array`. `out` is the argument of the caller."""
    cdef cnp.ndarray target = array
    cdef Step step
    if out is not None:
        for step in steps:
            if step.array is not None and clash(step.array, array):
                target = empty_like(array, cnp.PyArray_TYPE(array))
                break
    if cnp.PyArray_SIZE(target):
        run([fuse(steps, target, scale if onnx else <float>1 / scale, zero, onnx)])
    if target is not array:
        array[...] = target
    if out is not None:
        return out
    return array if cnp.PyArray_NDIM(array) else array[()]


@cython.freelist(4)
cdef class Epilogue:
    """Scales, zero points and post-ops of a primitive with one source."""


cdef Epilogue epilogue_of(cnp.ndarray src, object scales, object zero_points, object post_ops, int typenum,
                          str name="post_ops", bint onnx=False):
    """Return the checked values. `given` is false if there are no scales, zero points and post-ops."""
    cdef Epilogue self = Epilogue.__new__(Epilogue)
    cdef dict values
    self.typenum, self.name, self.onnx = typenum, name, onnx
    self.post_ops = checked_ops(post_ops, name)
    self.given = bool(self.post_ops)
    self.scale = self.dst_scale = 1
    # A small problem without scales and zero points must not spend time on checks.
    if scales is not None:
        values = by_tensor(scales, "scales", TENSORS)
        self.scale = scale_from(values.get("src", 1), "scales['src']")
        self.dst_scale = divisor(values.get("dst", 1), "scales['dst']")
        self.given = self.given or bool(values)
    if zero_points is not None:
        values = by_tensor(zero_points, "zero_points", TENSORS)
        self.zero = zero_point_from(values.get("src", 0), "zero_points['src']", cnp.PyArray_TYPE(src))
        self.dst_zero = zero_point_from(values.get("dst", 0), "zero_points['dst']", typenum, onnx)
        self.given = self.given or bool(values)
    return self


cdef object finished(cnp.ndarray result, Epilogue e, object out):
    """Apply an epilogue to an array, and store the result in `out` or in a new array."""
    cdef cnp.ndarray target = destination(out, e.typenum, result)
    cdef list steps = post_ops_of(e.post_ops, e.name, target, out is not None)
    steps.insert(0, reading(result, e.scale, e.zero))
    return compute(steps, target, out, e.dst_scale, e.dst_zero, e.onnx)
