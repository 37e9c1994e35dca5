"""onnx's own tests of every operator of the table."""

import pytest
from onnx_models import check, node_modules, node_tests

from int8blas.onnx.operators import TABLE

# Operators of which onnx has no test of one node, or none with types that NumPy has.
WITHOUT = {
    "Constant", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "SequenceConstruct",
    "SequenceEmpty", "SequenceErase", "SequenceAt", "SequenceLength", "ConcatFromSequence", "OptionalGetElement",
}  # fmt: skip
SKIPPED = {
    # training, which load does not do
    "test_training_dropout_default", "test_training_dropout_default_mask", "test_training_dropout",
    "test_training_dropout_mask", "test_training_dropout_zero_ratio", "test_training_dropout_zero_ratio_mask",
    # version 8, where Scan had lengths of sequences and a batch
    "test_scan_sum",
    # NumPy has no einsum of bfloat16
    "test_einsum_sum_bfloat16",
    # types among its constants that NumPy does not have
    "test_if_opt",
}  # fmt: skip


@pytest.mark.parametrize("operator", sorted(name for domain, name in TABLE.rows if not domain))
def test_an_operator_passes_the_tests_of_onnx(operator):
    cases = [case for case in node_tests(operator) if case.name not in SKIPPED]
    if not cases:
        assert operator in WITHOUT or operator.lower() not in node_modules()
    for case in cases:
        try:
            check(case)
        except BaseException as error:
            error.add_note(case.name)
            raise
