"""Shared by the tests of errors: operands, and the context in which an error must be raised."""

import re

import numpy as np
import pytest


def u8(*shape):
    return np.ones(shape, np.uint8)


def s8(*shape):
    return np.ones(shape, np.int8)


def s32(*shape):
    return np.full(shape, 77, np.int32)


def read_only(array):
    array.flags.writeable = False
    return array


def refused(error, text):
    """A context in which exactly this error must be raised."""
    return pytest.raises(error, match=f"^{re.escape(text)}")
