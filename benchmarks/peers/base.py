"""The base classes of contestants with layers and networks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from int8blas._bench.peers.base import Peer

from linear import LinearProblem
from recurrent import RecurrentProblem


class LayerPeer(Peer):
    """A layer; `kind` is the kind of its problems, or "f32" for a float32 layer that is compared with dynamic
    layers."""

    def supports(self, problem: LinearProblem | RecurrentProblem) -> bool:
        return problem.kind == ("dynamic" if self.kind == "f32" else self.kind)


@dataclass(frozen=True)
class Encoder:
    """A network that is compared with the example's: `run` takes tokens (n, t) and their mask, and returns
    embeddings."""

    name: str
    library: str
    version: str
    run: Callable[[np.ndarray, np.ndarray], np.ndarray]
