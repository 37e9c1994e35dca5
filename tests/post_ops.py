"""Post-ops of all kinds, and special values for them."""

import numpy as np
from reference_quantized import ELTWISE

from int8blas import Eltwise, ReLU

SPECIAL = np.array(
    [
        0, -0.0, 0.5, -0.5, 1.5, 2.5, -2.5, 1e-45, -1e-45, 1e-30, -1e-30, 3, -3, 6, 1e10, -1e10, 3e38, -3e38, np.inf,
        -np.inf, np.nan,
    ],
    np.float32,
)  # fmt: skip

# Every function of the oracle with its default parameters, and further parameters for some. The limits of clip and
# clip_v2 have no defaults; the tests take the limits of ReLU6.
LIMITS = {"clip": (0, 6), "clip_v2": (0, 6)}
ELTWISES = [Eltwise(name, *LIMITS.get(name, ()), scale=scale) for name in ELTWISE for scale in (1, -0.3)] + [
    ReLU(0.1), ReLU(-2), ReLU(0, 3), ReLU(0.25, -0.5), ReLU(1), Eltwise("hardswish", -0.2, 1.25, 2),
    Eltwise("clip", -2, -2), Eltwise("clip", -3, 1, 0.1), Eltwise("square", scale=0.01), Eltwise("sqrt", scale=7),
    Eltwise("linear", 2, -3), Eltwise("linear", 0.1, 0.1, 0.1), Eltwise("hardsigmoid", -0.2, 1.25, 2),
    Eltwise("clip_v2", -3, -0.0, 0.1),
]  # fmt: skip
