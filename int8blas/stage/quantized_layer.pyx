"""The base class of layers with int8 weights: types, numerics, and the values of every execution."""

cimport int8blas.core.cnumpy as cnp

from int8blas.core.arrays cimport as_array, check_numerics, source_of_type
from int8blas.core.signatures import Signature
from int8blas.core.words import check_created, check_once
from int8blas.stage.layer_arguments import DST_DTYPES, INT16_DTYPES, check_attributes, check_dtype

cnp.import_array()

cdef tuple QUANTIZED = (cnp.NPY_UINT8, cnp.NPY_INT8, cnp.NPY_INT16, cnp.NPY_UINT16)


cdef class QuantizedLayer:
    """The base class. A subclass sets its weights, `_layer` and `_constant`, and has its own docstring."""

    __signature__ = Signature()

    cdef int set_types(self, src_dtype, tuple src_dtypes, dst_dtype, attributes, numerics) except -1:
        """Check the arguments that are not numbers. `src_dtypes` are the allowed types of a source."""
        check_once(self, self.attributes)
        self._saturating = check_numerics(numerics)
        self._numerics = numerics
        self.src_dtype = check_dtype(src_dtype, "src_dtype", src_dtypes)
        self.dst_dtype = check_dtype(dst_dtype, "dst_dtype", DST_DTYPES)
        self._src_type, self._dst_type = self.src_dtype.num, self.dst_dtype.num
        self._wide = self.src_dtype in INT16_DTYPES
        if self._wide and self._saturating:
            raise ValueError(f"numerics must be 'exact' with src_dtype {self.src_dtype}, got {numerics!r}")
        self.attributes = check_attributes(attributes)
        return 0

    cdef Layer created(self):
        """Return the epilogue, which is None if the layer has not been created."""
        if self._layer is None:
            check_created(self, self._layer)
        return self._layer

    cdef cnp.ndarray source(self, object src):
        """Return the source as an array of `src_dtype`. If `src_dtype` is float32, the source may also be an array of
        16-bit floats, which the kernels can read."""
        cdef cnp.ndarray x = as_array(src, "src")
        cdef int given = cnp.PyArray_TYPE(x)
        if given != self._src_type and given in QUANTIZED and self._src_type in QUANTIZED:
            raise TypeError(f"src must be {self.src_dtype}, got {x.dtype}: create the layer with src_dtype="
                            f"{x.dtype.name!r}")
        return source_of_type(src, self._src_type)

    @property
    def scales(self):
        """The scales of every execution."""
        return self.created().constants["scales"]

    @property
    def zero_points(self):
        """The zero points of every execution."""
        return self.created().constants["zero_points"]

    @property
    def bias(self):
        """The bias, or None."""
        return self.created()._bias
