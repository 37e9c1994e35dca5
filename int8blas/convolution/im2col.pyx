"""The matrix of the windows of an image, the factor A of a convolution::

    out[(n, o), (k, c)] = src[n, o * stride + k * dilation - before, c].

The positions o and k have 1 to 3 spatial dimensions. Outside the image, src is the padding value.
"""

from math import prod
from sys import maxsize

from libc.stdint cimport int64_t, uint8_t
cimport int8blas.core.cnumpy as cnp
import numpy as np

from int8blas.convolution.filters cimport Images, set_images
from int8blas.core.arrays cimport elements_output, int8_operand
from int8blas.core.kernels cimport current_kernels, i8_image, i8_kernels
from int8blas.core.parameters import integer
from int8blas.core.results cimport Layout, check_layout, empty_of, lay_out
from int8blas.core.spatial import output_size, padding_of, parse_layout, parse_padding, per_dimension
from int8blas.core.split cimport share
from int8blas.core.threads cimport THREAD_BYTES, parallel_for, threads_for
from int8blas.core.turns cimport end_turn, take_turn
from int8blas.core.traced import traced
from int8blas.core.words import shown

cnp.import_array()

cdef struct MatrixJob:
    const i8_kernels *kernels
    i8_image image
    uint8_t *dst
    int64_t groups, rows, k     # rows of a group's matrix


cdef int write_part(const void *job, int64_t part, int64_t parts) noexcept nogil:
    """Write a part of the rows. The rows of all groups' matrices are numbered consecutively."""
    cdef const MatrixJob *j = <const MatrixJob *>job
    cdef i8_image image = j.image
    cdef int64_t row = share(j.groups * j.rows, part, parts), end = share(j.groups * j.rows, part + 1, parts), together
    while row < end and j.k > 0:
        together = min(end - row, j.rows - row % j.rows)
        image.src = j.image.src + row // j.rows * image.channels * image.steps[4]
        j.kernels.packing.im2col(j.dst + row * j.k, j.k, &image, row % j.rows, together, 0, j.k, 0)
        row += together
    return 0


@traced("src")
def im2col(src, kernel, *, strides=1, padding=0, dilation=1, groups=1, layout=None, padding_value=0, out=None):
    """Return the windows of an image as the rows of a matrix.

    Parameters
    ----------
    src : array_like of uint8 or int8
        Images (n, h, w, c) or (n, c, h, w), with one, two or three spatial dimensions, and with any strides.
    kernel : int or sequence of int
        The size of a window, for all spatial dimensions or for each.
    strides : int or sequence of int, optional
        The step from one window to the next.
    padding : int, sequence or str, optional
        Padding on both sides of all spatial dimensions, or for each dimension an integer or a pair (before, after).
        "same", "same_lower" and "valid" have the meaning that :class:`Convolution` gives them.
    dilation : int or sequence of int, optional
        The step from one element of a window to the next; 1 means no dilation.
    groups : int, optional
        Groups of channels, each with its own matrix.
    layout : str, optional
        "nwc", "nhwc" or "ndhwc" (the default), or "ncw", "nchw" or "ncdhw". Names in upper case are accepted.
    padding_value : int, optional
        The value of padding. The zero point of the images stands for 0.0.
    out : ndarray of src's dtype, optional
        The array for the result, with any strides. If `out` is not C-contiguous, or shares memory with `src`, the
        matrix is copied once.

    Returns
    -------
    ndarray of src's dtype
        The shape is (n * outputs, window * c), or with groups (groups, n * outputs, window * c / groups). Outputs have
        the order (d, h, w), and elements of a window the order (d, h, w, c).

    Raises
    ------
    TypeError, ValueError
        If an argument is not as described above. Nothing is written then.

    Notes
    -----
    :class:`Convolution` computes the product without this matrix, which is larger than the image if windows overlap.

    Examples
    --------
    >>> import numpy as np, int8blas
    >>> image = np.arange(9, dtype=np.uint8).reshape(1, 3, 3, 1)
    >>> int8blas.im2col(image, 2)
    array([[0, 1, 3, 4],
           [1, 2, 4, 5],
           [3, 4, 6, 7],
           [4, 5, 7, 8]], dtype=uint8)
    >>> blur = np.ones((4, 1), np.int8)
    >>> int8blas.gemm_u8s8s32(1, int8blas.im2col(image, 2), blur).reshape(2, 2)
    array([[ 8, 12],
           [20, 24]], dtype=int32)
    """
    cdef cnp.ndarray x = int8_operand(src, "src")
    cdef cnp.ndarray result, given
    cdef MatrixJob job
    cdef i8_image *image = &job.image
    cdef Images images
    cdef int64_t group_count
    cdef int d, spatial, parts
    cdef object shape
    cdef Layout checked
    lay_out(&checked, x)
    job.kernels = current_kernels()
    spatial, channels_last = parse_layout(layout, x.ndim, "src")
    kernel = (1,) * (3 - spatial) + per_dimension(kernel, spatial, "kernel", 1)
    strides = (1,) * (3 - spatial) + per_dimension(strides, spatial, "strides", 1)
    dilation = (1,) * (3 - spatial) + per_dimension(dilation, spatial, "dilation", 1)
    padding = parse_padding(padding, spatial)
    (group_count,) = per_dimension(groups, 1, "groups", 1)
    info = np.iinfo(x.dtype)
    value = integer(padding_value, "padding_value")
    if not info.min <= value <= info.max:
        raise ValueError(f"padding_value must be between {info.min} and {info.max}, got {shown(value)}")
    check_layout(&checked, x, "src")
    set_images(&images, x, channels_last)
    sizes = [images.size[d + 1] for d in range(3)]
    if isinstance(padding, tuple):
        padding = ((0, 0),) * (3 - spatial) + padding
    padding = padding_of(padding, sizes, kernel, strides, dilation)
    if images.size[4] % group_count:
        raise ValueError(f"src must have channels divisible by groups={group_count}, got {images.size[4]}")
    image.src, image.end = <const uint8_t *>images.data, <const uint8_t *>images.end
    image.channels = images.size[4] // group_count
    image.padding = <uint8_t>(value & 0xff)
    shape = (group_count, images.size[0], image.channels)
    for d in range(5):
        image.steps[d] = images.steps[d]
    for d in range(3):
        image.size[d], image.kernel[d], image.stride[d] = images.size[d + 1], kernel[d], strides[d]
        image.dilation[d], image.before[d] = dilation[d], padding[d][0]
        image.out[d] = output_size(images.size[d + 1], kernel[d], strides[d], dilation[d], padding[d], "src")
        shape = (group_count, shape[1] * image.out[d], shape[2] * image.kernel[d])
    if max(prod(shape), *shape) > maxsize:
        raise ValueError(f"src must have at most {maxsize} elements in all windows, got the shape {shape}")
    image.line = image.kernel[2] * image.channels
    job.groups, job.rows, job.k = shape
    shape = shape[group_count == 1:]
    if out is None:
        result = empty_of(shape, cnp.PyArray_TYPE(x))
    else:
        given = result = elements_output(out, "out", cnp.PyArray_TYPE(x), shape)
        if not cnp.PyArray_IS_C_CONTIGUOUS(result) or np.may_share_memory(result, x):
            result = empty_of(shape, cnp.PyArray_TYPE(x))
    job.dst = <uint8_t *>cnp.PyArray_DATA(result)
    with nogil:
        end_turn()
        parts = threads_for(<double>cnp.PyArray_SIZE(result), THREAD_BYTES, <double>(job.groups * job.rows))
        parallel_for(write_part, &job, parts, parts)
        take_turn()
    if out is not None and result is not given:
        given[...] = result
    return result if out is None else out
