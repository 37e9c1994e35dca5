"""Index: any sequence of changes, searches with filters, and files."""

import tempfile
from contextlib import contextmanager

import numpy as np
import reference_neighbors
from reference_index import Model

import int8blas
from int8blas.neighbors import shards

METRICS = ("inner", "cosine", "sqeuclidean", "hamming")
KINDS = ("int8", "uint8", "float")
# The minimum and the maximum number of rows of a shard: usually small, so that shards are packed, merged and full.
LIMITS = ((8, 48), (8, 48), (32, 200), (1024, 1 << 18))
SCALE = 0.06


def problem(draws):
    metric = draws.among(METRICS)
    kind = "uint8" if metric == "hamming" else draws.among(KINDS)
    dim, generator, spread = draws.size(6), draws.generator(), draws.among((1, 5, 127))
    held, steps, next_id = [], [], 0
    for _ in range(draws.integer(1, 8)):
        step, count = draws.among(("add", "add", "place", "remove", "update", "pickle", "files")), draws.size(7) - 1
        some = generator.permutation(held)[:count].astype(np.int64)
        if step == "add":
            ids = np.arange(next_id, next_id + count)
        elif step == "place":
            ids = generator.permutation(np.setdiff1d(generator.integers(0, 500, count), held))
        elif step in ("remove", "update"):
            ids = some
        else:
            ids = np.empty(0, np.int64)
        held = [id_ for id_ in held if id_ not in ids] + ([] if step == "remove" else ids.tolist())
        next_id = max([next_id - 1, *held]) + 1
        steps.append((step, ids, drawn(generator, kind, len(ids), dim, spread)))
        q = drawn(generator, kind, draws.below(4), dim, spread)
        steps.append(("search", q, (some_filter(draws, generator, next_id), some_filter(draws, generator, next_id))))
    return {
        "metric": metric,
        "kind": kind,
        "dim": dim,
        "limits": draws.among(LIMITS),
        "count": draws.among((1, 10, 40, 1000)),
        "steps": steps,
    }


def drawn(generator, kind, count, dim, spread):
    """Vectors, with ties if the spread is small."""
    if kind == "float":
        x = generator.normal(size=(count, dim)).astype(np.float32)
        return np.round(x * spread) / np.float32(spread) if spread < 127 else x
    return generator.integers(0 if kind == "uint8" else -spread, spread + 1, (count, dim)).astype(kind)


def some_filter(draws, generator, end):
    """A filter: None, ids, a mask, the parts of a range, or a divisor of ids."""
    return draws.among(
        (
            None,
            None,
            generator.integers(0, end + 5, draws.below(end + 1)),
            generator.random(draws.below(end + 3)) < draws.fraction(),
            (*sorted(generator.integers(0, end + 5, 2).tolist()), draws.among((1, 2, 3, -1))),
            draws.integer(1, 20),
        )
    )


def as_filter(given):
    """The filter that an index takes."""
    if isinstance(given, int):
        return lambda ids: ids % given == 0
    return range(*given) if isinstance(given, tuple) else given


def allows(given, id_, default):
    """Whether a filter includes an id."""
    if given is None:
        return default
    if isinstance(given, int):
        return id_ % given == 0
    if isinstance(given, tuple):
        return id_ in range(*given)
    return bool(id_ < len(given) and given[id_]) if given.dtype == bool else id_ in given


def scale_of(problem):
    return SCALE if problem["kind"] == "float" and problem["metric"] != "cosine" else None


@contextmanager
def limits(least, most):
    """A context in which shards have these limits."""
    before = shards.LEAST, shards.MOST
    shards.LEAST, shards.MOST = least, most
    try:
        yield
    finally:
        shards.LEAST, shards.MOST = before


def changed(index, step, ids, x, folder):
    """The index after a change."""
    if step == "add":
        index.add(x)
    elif step == "place":
        index.add(x, ids)
    elif step == "remove":
        index.remove(ids)
    elif step == "update":
        index.update(ids, x)
    else:
        index.save(folder)
        index = int8blas.Index.load(folder, mmap=step == "files")
    return index


def run(problem):
    results = []
    dtype = "uint8" if problem["kind"] == "uint8" else "int8"
    index = int8blas.Index(problem["dim"], problem["metric"], dtype, scale=scale_of(problem))
    with limits(*problem["limits"]), tempfile.TemporaryDirectory() as folder:
        for step, first, second in problem["steps"]:
            if step != "search":
                index = changed(index, step, first, second, folder)
                continue
            filters = dict(zip(("include", "exclude"), map(as_filter, second), strict=True))
            scores, ids = index.search(first, problem["count"], **filters)
            radius = float(scores[0, -1]) if scores.size else 0.0
            results += [scores, ids, *index.range_search(first, radius, **filters)]
    return tuple(results)


def oracle(problem):
    results = []
    model = Model(problem["metric"], problem["kind"], problem["dim"], SCALE)
    for step, first, second in problem["steps"]:
        if step == "remove":
            for id_ in first.tolist():
                del model.vectors[id_]
            continue
        if step != "search":
            model.put(first, second)
            continue
        include, exclude = second
        scores, ids = model.every(
            first, lambda id_, a=include, b=exclude: allows(a, id_, True) and not allows(b, id_, False)
        )
        best = scores[:, : problem["count"]]
        radius = float(best[0, -1]) if best.size else 0.0
        inside = scores <= radius if problem["metric"] in reference_neighbors.DISTANCES else scores >= radius
        limits = np.concatenate([[0], np.cumsum(inside.sum(axis=1))])
        results += [best, ids[:, : problem["count"]], limits, scores[inside], ids[inside]]
    return tuple(results)
