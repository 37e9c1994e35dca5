"""The common base of layers with int8 weights: types, numerics, and the values of every execution."""

from int8blas.core.arrays cimport check_numerics
from int8blas.core.signatures import Signature
from int8blas.stage.layer_arguments import DST_DTYPES, check_attributes, check_dtype


cdef class QuantizedLayer:
    """A subclass sets its weights, `_layer` and `_constant`, and has its own documentation."""

    __signature__ = Signature()

    cdef int set_types(self, src_dtype, tuple src_dtypes, dst_dtype, attributes, numerics) except -1:
        """Check the arguments that are not numbers, with the types that a source may have."""
        self._saturating = check_numerics(numerics)
        self._numerics = numerics
        self.src_dtype = check_dtype(src_dtype, "src_dtype", src_dtypes)
        self.dst_dtype = check_dtype(dst_dtype, "dst_dtype", DST_DTYPES)
        self._src_type, self._dst_type = self.src_dtype.num, self.dst_dtype.num
        self.attributes = check_attributes(attributes)
        return 0

    @property
    def scales(self):
        """The scales of every execution."""
        return self._layer.constants["scales"]

    @property
    def zero_points(self):
        """The zero points of every execution."""
        return self._layer.constants["zero_points"]

    @property
    def bias(self):
        """The bias, or None."""
        return self._layer._bias
