"""The oracle of an index: brute force over a dict of vectors."""

import numpy as np
import reference_neighbors as reference


class Model:
    """The oracle: vectors by id in the order in which they were added, as integers with factors."""

    def __init__(self, metric, kind, dim, scale):
        self.metric, self.kind, self.scale, self.dim = metric, kind, np.float32(scale), dim
        self.vectors = {}

    def quantized(self, x):
        """Quantized rows and the step of each row."""
        if self.kind != "float":
            return x, np.ones(len(x), np.float32)
        steps = np.full(len(x), self.scale)
        if self.metric == "cosine":
            steps = np.maximum(np.abs(x).max(axis=1) / np.float32(127), np.finfo(np.float32).tiny)
        return np.clip(np.rint(x / steps[:, np.newaxis]), -128, 127).astype(np.int8), steps

    def asked(self, q):
        """Quantized queries and the factor of each query's scores."""
        if self.metric == "cosine":
            return self.quantized(q)[0], np.ones(len(q))
        if self.metric == "sqeuclidean" or self.kind != "float":
            scale = float(self.scale) if self.kind == "float" else 1.0
            return self.quantized(q)[0], np.full(len(q), scale * scale)
        steps = np.maximum(np.abs(q).max(axis=1) / np.float32(127), np.finfo(np.float32).tiny)
        return np.rint(q / steps[:, np.newaxis]).astype(np.int8), steps.astype(float) * float(self.scale)

    def put(self, ids, x):
        rows, steps = self.quantized(x)
        for id_, row, step in zip(ids, rows, steps, strict=True):
            self.vectors.pop(int(id_), None)
            self.vectors[int(id_)] = row, step

    def every(self, q, allowed):
        """The scores and the ids of all allowed vectors, best first for each query."""
        ids = np.array([id_ for id_ in self.vectors if allowed(id_)], np.int64)
        rows, factors = self.asked(q)
        base = np.array([self.vectors[id_][0] for id_ in ids]).reshape(len(ids), self.dim).astype(rows.dtype)
        order, scores = reference.nearest(rows, base, len(ids), self.metric)
        return scores * factors[:, np.newaxis], ids[order]
