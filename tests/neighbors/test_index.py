"""An index has the results of brute force over its vectors, after any sequence of changes, in memory and from files."""

import builtins
import json
import os
import pickle
import threading
import zlib

import numpy as np
import pytest
import reference_neighbors as reference
from arrays import assert_same
from errors import refused, s8, u8
from hypothesis import given
from hypothesis import strategies as st
from reference_index import Model

import int8blas
from int8blas.neighbors import index_files, shards

OF_FLOATS = ("cosine", "inner", "sqeuclidean")
METRICS = (*OF_FLOATS, "hamming")
KINDS = ("float", "int8", "uint8")


@pytest.fixture
def small_shards(monkeypatch):
    """Let shards be packed, merged and full after only a few rows."""
    monkeypatch.setattr(shards, "LEAST", 8)
    monkeypatch.setattr(shards, "MOST", 48)


def draw(rng, kind, count, dim, spread):
    if kind == "float":
        x = rng.normal(size=(count, dim)).astype(np.float32)
        x[rng.random(count) < 0.1] = 0
        return np.round(x * spread) / np.float32(spread) if spread < 4 else x
    low = 0 if kind == "uint8" else -spread
    return rng.integers(low, spread + 1, (count, dim)).astype(kind)


def random_filter(rng, largest):
    """A filter, and a function that tells whether it includes an id."""
    kind = rng.integers(5)
    if kind == 0:
        ids = rng.integers(0, largest + 5, rng.integers(0, largest + 1))
        return ids, set(ids.tolist()).__contains__
    if kind == 1:
        some = range(*sorted(rng.integers(0, largest + 5, 2).tolist()), int(rng.integers(1, 4)))
        return some if rng.random() < 0.5 else some[::-1], some.__contains__
    if kind == 2:
        mask = rng.random(rng.integers(0, largest + 3)) < rng.random()
        return mask, lambda id_: id_ < len(mask) and bool(mask[id_])
    if kind == 3:
        divisor = int(rng.integers(1, 20))
        return lambda ids: ids % divisor == 0, lambda id_: id_ % divisor == 0
    return [], lambda id_: False


def check_searches(index, model, rng, q):
    largest = max(model.vectors, default=0)
    include = random_filter(rng, largest) if rng.random() < 0.6 else (None, lambda id_: True)
    exclude = random_filter(rng, largest) if rng.random() < 0.4 else (None, lambda id_: False)
    scores, ids = model.every(q, lambda id_: include[1](id_) and not exclude[1](id_))
    filters = {"include": include[0], "exclude": exclude[0]}
    k = int(rng.integers(1, 12)) if rng.random() < 0.7 else 2000
    found_scores, found = index.search(q, k, **filters)
    assert_same(found, ids[:, :k])
    assert np.array_equal(found_scores, scores[:, :k])
    radius = float(rng.choice(scores.reshape(-1))) if scores.size else 0.0
    limits, found_scores, found = index.range_search(q, radius, **filters)
    inside = scores <= radius if model.metric in reference.DISTANCES else scores >= radius
    assert_same(limits, np.concatenate([[0], np.cumsum(inside.sum(axis=1))]))
    assert_same(found, ids[inside])
    assert np.array_equal(found_scores, scores[inside])


def check_contents(index, model):
    assert len(index) == len(model.vectors)
    blocks = list(index.blocks())
    ids = [id_ for some, _ in blocks for id_ in some.tolist()]
    assert ids == list(model.vectors)
    wanted = [row.astype(np.float32) * (step if model.kind == "float" else 1) for row, step in model.vectors.values()]
    held = [row for _, rows in blocks for row in rows]
    assert np.array_equal(np.array(held), np.array(wanted))
    some = list(reversed(ids))[:5] + ids[:2]
    assert np.array_equal(
        index.reconstruct(some), np.array([wanted[ids.index(id_)] for id_ in some]).reshape(-1, model.dim)
    )
    assert all(id_ in index for id_ in some)
    assert all(other not in index for other in (-1, max(ids, default=0) + 1, 2**63, -(2**70)))


@pytest.mark.usefixtures("small_shards")
@given(st.sampled_from(METRICS), st.sampled_from(KINDS), st.integers(0, 2**32 - 1))
def test_any_sequence_of_changes(tmp_path_factory, metric, kind, seed):
    rng = np.random.default_rng(seed)
    kind = "uint8" if metric == "hamming" else kind
    dim, spread, scale = int(rng.integers(1, 20)), int(rng.choice([1, 5, 127])), 0.06
    index = int8blas.Index(
        dim,
        metric,
        "uint8" if kind == "uint8" else "int8",
        scale=scale if kind == "float" and metric != "cosine" else None,
    )
    model, folder = Model(metric, kind, dim, scale), None
    for _ in range(rng.integers(1, 12)):
        change, count = rng.integers(7), int(rng.integers(0, 40))
        held = list(model.vectors)
        some = rng.permutation(held)[:count].astype(np.int64)
        if change <= 1:
            x = draw(rng, kind, count, dim, spread)
            model.put(index.add(x), x)
        elif change == 2:
            ids = np.setdiff1d(rng.integers(0, 500, count), held)
            x = draw(rng, kind, len(ids), dim, spread)
            ids = rng.permutation(ids)
            assert_same(index.add(x, ids), ids)
            model.put(ids, x)
        elif change == 3:
            index.remove(some)
            for id_ in some.tolist():
                del model.vectors[id_]
        elif change == 4:
            x = draw(rng, kind, len(some), dim, spread)
            index.update(some, x)
            model.put(some, x)
        elif change == 5:
            index = pickle.loads(pickle.dumps(index, 5))
        else:
            folder = folder or tmp_path_factory.mktemp("index")
            index.save(folder)
            index = int8blas.Index.load(folder, mmap=bool(rng.integers(2)), verify=bool(rng.integers(2)))
        check_searches(index, model, rng, draw(rng, kind, int(rng.integers(0, 4)), dim, spread))
    check_contents(index, model)


# --- numbers ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("metric", METRICS)
def test_many_vectors_in_shards_of_the_usual_sizes(metric, rng):
    x = rng.integers(-128, 128, (5000, 20), np.int8).view(np.uint8 if metric == "hamming" else np.int8)
    index = int8blas.Index(20, metric)
    for start, end in ((0, 1), (1, 1500), (1500, 2999), (2999, 5000)):
        index.add(x[start:end])
    for q in (x[:3], x[:3].view(np.uint8)):
        scores, ids = index.search(q, 1500)
        expected, expected_scores = reference.nearest(q, x, 1500, metric)
        assert_same(ids, expected)
        assert np.array_equal(scores, expected_scores)
        assert_same(index.search(q[0], 3)[1], expected[0, :3])
        limits, _, ids = index.range_search(q, expected_scores[0, 1200])
        assert_same(ids[: limits[1]], reference.nearest(q[:1], x, limits[1], metric)[0][0])


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("metric", OF_FLOATS)
def test_scores_are_close_to_those_of_floats(metric, dtype, rng):
    x, q = (rng.normal(size=(n, 64)).astype(dtype) for n in (300, 7))
    index = int8blas.Index(64, metric)
    index.add(x)
    scores, ids = index.search(q, 300)
    wide, asked = x.astype(np.float64), q.astype(np.float64)
    expected = asked @ wide.T
    if metric == "cosine":
        expected /= np.linalg.norm(asked, axis=1)[:, None] * np.linalg.norm(wide, axis=1)
    if metric == "sqeuclidean":
        expected = np.square(asked[:, None] - wide).sum(axis=2)
    error = np.abs(scores - np.take_along_axis(expected, ids, axis=1)).max()
    assert 0 < error < {"cosine": 0.02, "inner": 1.5, "sqeuclidean": 3}[metric]
    held = index.reconstruct(np.arange(300))
    assert np.abs(held - wide).max() < 0.02 * np.abs(wide).max()


def test_the_first_floats_set_the_scale():
    index = int8blas.Index(2, "sqeuclidean")
    assert index.scale is None
    index.add(np.array([[127.0, 1], [-254, 3]]))
    assert index.scale == 2
    assert index.reconstruct(1).tolist() == [-254, 4]  # 1.5 is rounded to even
    with pytest.warns(RuntimeWarning, match="^x has elements beyond the range of the scale 2, .* in 1 of 2 vectors"):
        index.add([[0.0, 256], [0, -256]])
    assert index.reconstruct([2, 3])[:, 1].tolist() == [254, -256]
    with pytest.warns(RuntimeWarning, match="^q has elements beyond"):
        assert index.search([0.0, 1000], 1)[0] == [0.0]


def test_vectors_without_memory_set_no_scale(monkeypatch):
    def fail(*_):
        raise MemoryError

    index = int8blas.Index(2, "inner")
    with monkeypatch.context() as patch:
        patch.setattr("int8blas.neighbors.index.appended", fail)
        with pytest.raises(MemoryError):
            index.add(np.ones((3, 2)))
    assert index.scale is None
    index.add([[0.0, 254]])
    assert index.scale == 2


def test_no_scale_comes_from_nothing():
    index = int8blas.Index(2, "inner")
    index.add(np.empty((0, 2)))
    assert index.scale is None
    with refused(ValueError, "x must have elements other than 0, to set a scale: give Index a scale"):
        index.add(np.zeros((3, 2)))
    index.add(s8(1, 2))
    with refused(ValueError, "x must be int8, as the vectors before: they were added without a scale"):
        index.add(np.ones((3, 2)))
    index.remove(0)
    index.add([[0.0, 254]])
    assert index.scale == 2
    assert int8blas.Index(2, "sqeuclidean").search([[1.0, 1000]], 3)[1].shape == (1, 0)


@pytest.mark.parametrize("metric", OF_FLOATS)
def test_ranking_of_integers_with_a_scale(metric, rng):
    index = int8blas.Index(6, metric, scale=None if metric == "cosine" else 0.5)
    x, q = rng.integers(-128, 128, (200, 6), np.int8), rng.integers(-128, 128, (4, 6), np.int8)
    index.add(x)
    scores, ids = index.search(q, 7)
    found = index.search(q, 7, rescore=x * (1.0 if metric == "cosine" else 0.5))
    assert np.allclose(found[0], scores, rtol=1e-12)
    assert (found[1] == ids).mean() > 0.9  # rounding may swap two nearly equal cosines


@pytest.mark.parametrize("metric", OF_FLOATS)
def test_ranking_by_floats(metric, tmp_path, rng):
    x, q = (rng.normal(size=(n, 16)).astype(np.float32) for n in (400, 20))
    index = int8blas.Index(16, metric)
    index.add(x)
    index.remove(range(0, 400, 3))
    np.save(tmp_path / "x.npy", x)
    wide, asked = x.astype(np.float64), q.astype(np.float64)
    for rescore in (x, np.load(tmp_path / "x.npy", mmap_mode="r"), lambda ids: x[ids], x.astype(np.float64)):
        scores, ids = index.search(q, 5, rescore=rescore)
        expected = np.einsum("mi,mji->mj", asked, wide[ids])
        if metric == "cosine":
            expected /= np.linalg.norm(asked, axis=1)[:, None] * np.linalg.norm(wide[ids], axis=2)
        if metric == "sqeuclidean":
            expected = np.square(asked[:, None] - wide[ids]).sum(axis=2)
        assert np.allclose(scores, expected, rtol=1e-12, atol=1e-12)
        assert (np.diff(scores, axis=1) >= 0 if metric == "sqeuclidean" else np.diff(scores, axis=1) <= 0).all()
        assert (ids % 3 > 0).all()
    zeros = np.zeros_like(x)
    assert index.search(q[0], 5, rescore=zeros)[0].shape == (5,)


def test_of_equal_scores_the_one_added_first_comes_first():
    index = int8blas.Index(2, "inner")
    index.add(s8(3, 2), ids=[50, 7, 30])
    index.add(s8(2, 2), ids=[40, 1])
    assert index.search(s8(2), 9)[1].tolist() == [50, 7, 30, 40, 1]
    index.update([50], s8(1, 2))
    assert index.search(s8(2), 9)[1].tolist() == [7, 30, 40, 1, 50]
    index.remove(30)
    assert index.add(s8(2)).tolist() == [51]
    assert index.search(s8(2), 9)[1].tolist() == [7, 40, 1, 50, 51]


def test_vectors_are_copied(rng):
    x = rng.integers(-128, 128, (30, 4), np.int8)
    index, given = int8blas.Index(4), x.copy()
    ids = index.add(given)
    given[:] = 0
    ids[:] = 7
    assert np.array_equal(index.reconstruct(range(30)), x)


def test_an_index_without_vectors():
    for index in (int8blas.Index(3), int8blas.Index(3, "sqeuclidean", np.uint8)):
        q = u8(2, 3) if index.dtype == np.uint8 else np.ones((2, 3))
        assert [x.shape for x in index.search(q, 4)] == [(2, 0), (2, 0)]
        assert [x.tolist() for x in index.range_search(q, 4)] == [[0, 0, 0], [], []]
        assert len(index) == 0
        assert list(index.blocks()) == []
        assert index.reconstruct([]).shape == (0, 3)
        index.remove([])
        assert index.add(q[:0]).tolist() == []
        assert index.search(q[:0], 4)[1].shape == (0, 0)


# --- threads ---------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("small_shards")
def test_searches_run_beside_changes():
    """Each result shows the index at one moment: an id has one vector, and vectors 0 to 9 are always present."""

    def vectors(ids):
        return np.stack([ids % 128, ids // 128, np.ones_like(ids)], axis=1).astype(np.int8)

    index, problems, over = int8blas.Index(3, "inner"), [], threading.Event()
    index.add(vectors(np.arange(10)))

    def search():
        q = vectors(np.array([3, 200]))
        while not over.is_set():
            scores, ids = index.search(q, 10_000)
            right = np.array_equal(scores, np.einsum("mi,mji->mj", q.astype(int), vectors(ids.reshape(-1)).astype(int)
                                                     .reshape(*ids.shape, 3)))  # fmt: skip
            if not right or len(set(ids[0].tolist())) != ids.shape[1] or not set(range(10)) <= set(ids[1].tolist()):
                problems.append(ids)

    def change(first):
        for start in range(first, first + 400, 40):
            ids = index.add(vectors(np.arange(start, start + 40)), np.arange(start, start + 40))
            index.update(ids[::2], vectors(ids[::2]))
            index.remove(ids[::3])

    threads = [threading.Thread(target=search) for _ in range(2)]
    writers = [threading.Thread(target=change, args=(first,)) for first in (1000, 2000)]
    for thread in (*threads, *writers):
        thread.start()
    for thread in writers:
        thread.join()
    over.set()
    for thread in threads:
        thread.join()
    assert not problems
    assert len(index) == 10 + 2 * 10 * 26


# --- files -----------------------------------------------------------------------------------------------------------


class CutError(BaseException):
    """A stand-in for the end of the process."""


class CutFile:
    """A file in which a write stops in the middle."""

    def __init__(self, file, allowed):
        self.file, self.allowed = file, allowed

    def write(self, data):
        if not self.allowed():
            self.file.write(memoryview(data).cast("B")[: len(data) // 2])
            self.file.flush()
            raise CutError
        return self.file.write(data)

    def __getattr__(self, name):
        return getattr(self.file, name)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.file.close()


def cut_after(monkeypatch, count):
    """Let `count` calls that change files succeed, and stop in the middle of the next one; return a list of the
    calls."""
    calls = []

    def allowed():
        calls.append(None)
        return len(calls) <= count

    def limited(function):
        def call(*arguments):
            if not allowed():
                raise CutError
            return function(*arguments)

        return call

    def open_limited(path, mode="r", *arguments, **keywords):
        file = builtins.open(path, mode, *arguments, **keywords)  # noqa: SIM115
        return CutFile(file, allowed) if "x" in mode else file

    for name in ("fsync", "replace", "unlink"):
        monkeypatch.setattr(os, name, limited(getattr(os, name)))
    monkeypatch.setattr(index_files, "open", open_limited, raising=False)
    monkeypatch.setattr("int8blas.core.streams.open", open_limited, raising=False)
    return calls


@pytest.mark.usefixtures("small_shards")
def test_a_save_that_is_cut_leaves_a_whole_index(tmp_path, monkeypatch, rng):
    x = rng.normal(size=(200, 6)).astype(np.float32)
    index = int8blas.Index(6)
    index.add(x[:120])
    index.save(tmp_path / "old")
    old = index.search(x, 200)
    index.remove(range(0, 120, 2))
    index.add(x[120:])
    new, outcomes = index.search(x, 200), []
    for count in range(1000):
        folder = tmp_path / str(count)
        folder.mkdir()
        for name in os.listdir(tmp_path / "old"):
            (folder / name).write_bytes((tmp_path / "old" / name).read_bytes())
        changed, whole = pickle.loads(pickle.dumps(index)), False
        with monkeypatch.context() as patched:
            calls = cut_after(patched, count)
            try:
                changed.save(folder)
                whole = True
            except CutError:
                pass
        found = int8blas.Index.load(folder, verify=True).search(x, 200)
        outcomes.append(np.array_equal(found[1], new[1]))
        expected = new if outcomes[-1] else old
        assert_same(found[1], expected[1], count=count)
        assert np.array_equal(found[0], expected[0])
        changed.save(folder)
        named = json.loads((folder / "index.json").read_text())["index"]
        files = {entry["file"] for entry in (*named["shards"], named["ids"], named["scales"])}
        assert set(os.listdir(folder)) == files | {"index.json"}
        if whole:
            break
    assert len(calls) == count > 10
    assert outcomes == sorted(outcomes)  # first always the old index, then always the new one
    assert not outcomes[0]
    assert outcomes[-1]


def test_rows_that_are_there_are_not_written_again(tmp_path, rng):
    x = rng.integers(-128, 128, (3000, 6), np.int8)
    index = int8blas.Index(6, "inner")
    index.add(x[:2000])
    index.save(tmp_path / "a")
    before = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "a").glob("rows-*")}
    index.remove(range(300))
    index.add(x[2000:2100])
    index.save(tmp_path / "a")
    after = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "a").glob("rows-*")}
    assert before.items() <= after.items()
    assert len(after) == len(before) + 1
    loaded = int8blas.Index.load(tmp_path / "a")
    loaded.add(x[2100:])
    loaded.save(tmp_path / "a")
    assert before.keys() <= {path.name for path in (tmp_path / "a").glob("rows-*")}
    loaded.save(tmp_path / "b")
    for folder in ("a", "b"):
        assert_same(int8blas.Index.load(tmp_path / folder).search(x[:5], 9)[1], loaded.search(x[:5], 9)[1])


def test_numpy_reads_the_files(tmp_path, rng):
    x = rng.normal(size=(37, 10)).astype(np.float32)
    index = int8blas.Index(10)
    index.add(x, ids=np.arange(37) * 3)
    index.save(tmp_path)
    tree = json.loads((tmp_path / "index.json").read_text())["index"]
    rows, ids, scales = (np.load(tmp_path / entry["file"]) for entry in (*tree["shards"], tree["ids"], tree["scales"]))
    rows = rows.transpose(0, 2, 1, 3).reshape(48, 12)[:37, :10]
    assert ids.tolist() == list(range(0, 111, 3))
    assert np.array_equal(rows * scales[:, np.newaxis], index.reconstruct(ids))


@pytest.mark.parametrize("some", [
    range(5, 2**70), range(2**70), range(2**70, -1, -1), range(-(2**70), 9), range(7, 2**70, 3), range(2**70, 0, -3),
    range(-(2**64), 2**70, 2**64 + 3), range(2**70, 2**71), range(2**70, 0),
])  # fmt: skip
def test_ranges_beyond_64_bits(some):
    index = int8blas.Index(2, "inner")
    index.add(np.ones((20, 2), np.int8))
    wanted = [id_ for id_ in range(20) if id_ in some]
    assert index.search(np.ones(2, np.int8), 20, include=some)[1].tolist() == wanted
    assert index.search(np.ones(2, np.int8), 20, exclude=some)[1].tolist() == sorted({*range(20)} - {*wanted})


@pytest.mark.parametrize("mmap", [True, False])
@pytest.mark.usefixtures("small_shards")
def test_damage_is_found(tmp_path, mmap, rng):
    x = rng.normal(size=(60, 5)).astype(np.float32)
    index = int8blas.Index(5)
    index.add(x)
    index.save(tmp_path)
    for path in sorted(tmp_path.iterdir()):
        whole = path.read_bytes()
        flipped = bytearray(whole)
        flipped[-5] ^= 1
        no_header, archive = whole.replace(b"{", b"(", 1), b"PK\3\4" + whole[4:]
        for damaged in (bytes(flipped), whole[:-5], whole[:20], b"", no_header, archive):
            path.write_bytes(damaged)
            with pytest.raises(ValueError, match=r"corrupted|truncated"):
                int8blas.Index.load(tmp_path, mmap=mmap, verify=True)
            with pytest.raises(ValueError, match=r"corrupted|truncated"):
                int8blas.Index.load(tmp_path, mmap=mmap).search(x, 1)
        path.unlink()
        with pytest.raises(FileNotFoundError if path.name == "index.json" else ValueError):
            int8blas.Index.load(tmp_path, mmap=mmap)
        path.write_bytes(whole)
    assert len(int8blas.Index.load(tmp_path, mmap=mmap, verify=True)) == 60


HOSTILE = [
    ("dim", 0), ("dim", "5"), ("dim", 9), ("metric", "l2"), ("metric", []), ("dtype", "float32"), ("scale", 3.0),
    ("scale", "x"), ("next_id", None), ("shards", 5), ("shards", [{}]), ("ids", None), ("scales", None),
    ("shards", [{"file": "../rows-0000000000000000.npy", "rows": 60, "checksum": 0}]), ("version", 2), ("version", "1"),
    ("shards", [{"file": "rows-0000000000000000.npy", "rows": 2**62, "checksum": 0}]), ("format", "x"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "value"), HOSTILE)
def test_settings_that_cannot_be(tmp_path, name, value, rng):
    index = int8blas.Index(5)
    index.add(rng.normal(size=(60, 5)))
    index.save(tmp_path)
    tree = json.loads((tmp_path / "index.json").read_text())["index"] | {name: value}
    text = {"index": tree, "checksum": zlib.crc32(json.dumps(tree, indent=1).encode())}
    (tmp_path / "index.json").write_text(json.dumps(text))
    with pytest.raises(ValueError, match=r"corrupted|truncated|version"):
        int8blas.Index.load(tmp_path)


@pytest.mark.parametrize("id_", [-2, 2**63 - 1])
def test_ids_that_cannot_be(tmp_path, id_, rng):
    index = int8blas.Index(5)
    index.add(rng.normal(size=(60, 5)))
    index.save(tmp_path)
    tree = json.loads((tmp_path / "index.json").read_text())["index"]
    ids = np.load(tmp_path / tree["ids"]["file"])
    ids[7] = id_
    np.save(tmp_path / tree["ids"]["file"], ids)
    tree["ids"]["checksum"] = zlib.crc32(ids.tobytes())
    text = {"index": tree, "checksum": zlib.crc32(json.dumps(tree, indent=1).encode())}
    (tmp_path / "index.json").write_text(json.dumps(text))
    with pytest.raises(ValueError, match=r"corrupted: ids are not from 0"):
        int8blas.Index.load(tmp_path)


def test_new_ids_go_on_behind_those_that_were_loaded(tmp_path):
    index = int8blas.Index(5)
    index.add(s8(3, 5), ids=[7, 900, 4])
    index.remove(900)
    index.save(tmp_path)
    tree = json.loads((tmp_path / "index.json").read_text())["index"]
    assert int8blas.Index.load(tmp_path).add(s8(5)).tolist() == [901]
    tree["next_id"] = -5
    text = {"index": tree, "checksum": zlib.crc32(json.dumps(tree, indent=1).encode())}
    (tmp_path / "index.json").write_text(json.dumps(text))
    assert int8blas.Index.load(tmp_path).add(s8(5)).tolist() == [8]


# --- errors ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ({"dim": 0}, ValueError, "dim must be at least 1, got 0"),
        ({"dim": 2.0}, TypeError, "dim must be an integer, got float"),
        ({"metric": "l2"}, ValueError, "metric must be 'cosine', 'inner', 'sqeuclidean' or 'hamming', got 'l2'"),
        (
            {"metric": "hamming", "dtype": np.int8},
            ValueError,
            "dtype must be uint8, packed bits, for metric 'hamming', got int8",
        ),
        ({"dtype": np.float32}, TypeError, "dtype must be uint8 or int8, got float32"),
        ({"scale": 1.0}, ValueError, "scale must be None for cosines, got 1.0"),
        ({"scale": 1.0, "metric": "inner", "dtype": "uint8"}, ValueError, "scale must be None for uint8, got 1.0"),
        ({"scale": 0.0, "metric": "inner"}, ValueError, "scale must be positive and finite in float32, got 0.0"),
        ({"scale": 1e300, "metric": "inner"}, ValueError, "scale must be positive and finite in float32, got 1e+300"),
        ({"scale": "1", "metric": "inner"}, TypeError, "scale must be a real number, got str"),
    ],
)
def test_errors_of_an_index(arguments, error, text):
    with refused(error, text):
        int8blas.Index(**({"dim": 3} | arguments))


def test_an_index_of_bits(rng):
    x = rng.integers(0, 256, (300, 6), np.uint8)
    index = int8blas.Index(6, "hamming")
    assert index.dtype == np.uint8
    index.add(x)
    assert_same(index.reconstruct([5, 3]), x[[5, 3]])
    assert_same(index.reconstruct(7), x[7])
    assert_same(np.concatenate([rows for _, rows in index.blocks()]), x)
    for q in (x[:2].view(np.int8), x[:2].astype(np.float32)):
        with refused(TypeError, f"q must be uint8, got {q.dtype}"):
            index.search(q, 3)
    with refused(TypeError, "x must be uint8, got int8"):
        index.add(x[:2].view(np.int8))
    with refused(ValueError, "rescore must be None for metric 'hamming': packed bits have no floats"):
        index.search(x[0], 3, rescore=x.astype(np.float32))


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda i: i.add(s8(2, 4)), ValueError, "x must have vectors of 3 elements, got shape (2, 4)"),
        (lambda i: i.add(s8(1, 2, 3)), ValueError, "x must have vectors of 3 elements, got shape (1, 2, 3)"),
        (lambda i: i.add(u8(2, 3)), TypeError, "x must be int8 or float32, got uint8"),
        (lambda i: i.add([[1, 2, 3]]), TypeError, "x must be int8 or float32, got a list of int64"),
        (lambda i: i.add([[1, 2, np.nan]]), ValueError, "x must be finite, got NaN or inf in vector 0"),
        (lambda i: i.add([[1, 2, 3.0], [1, 1e300, 3]]), ValueError, "x must be finite, got NaN or inf in vector 1"),
        (lambda i: i.add(s8(2, 3), ids=[1]), ValueError, "ids must have one for each of 2 vectors, got 1"),
        (lambda i: i.add(s8(2, 3), ids=[9, 9]), ValueError, "ids must have each id once"),
        (lambda i: i.add(s8(2, 3), ids=[9, 1]), ValueError, "ids must be new, got 1, which is in the index"),
        (lambda i: i.add(s8(2, 3), ids=[9, -1]), ValueError, "ids must be from 0 to 2**63 - 2, got -1"),
        (lambda i: i.add(s8(2, 3), ids=[9.0, 1]), TypeError, "ids must be integers, got float64"),
        (lambda i: i.add(s8(2, 3), ids=[[9, 1]]), ValueError, "ids must have at most 1 dimension, got shape (1, 2)"),
        (lambda i: i.update([1, 1], s8(2, 3)), ValueError, "ids must have each id once"),
        (lambda i: i.update([1], s8(2, 3)), ValueError, "ids must have one for each of 2 vectors, got 1"),
        (lambda i: i.search(s8(2), 3), ValueError, "q must have vectors of 3 elements, got shape (2,)"),
        (lambda i: i.search(np.ones(3, np.int64), 3), TypeError, "q must be int8, uint8 or float32, got int64"),
        (lambda i: i.search([np.inf, 1, 1], 3), ValueError, "q must be finite, got NaN or inf in vector 0"),
        (lambda i: i.search(s8(3), 0), ValueError, "k must be at least 1, got 0"),
        (lambda i: i.search(s8(3), 1.0), TypeError, "k must be an integer, got float"),
        (lambda i: i.search(s8(3), 1, include=[0.5]), TypeError, "include must be integers, got float64"),
        (lambda i: i.search(s8(3), 1, exclude=[-1]), ValueError, "exclude must be from 0 to 2**63 - 2, got -1"),
        (
            lambda i: i.search(s8(3), 1, include=lambda ids: ids),
            ValueError,
            "include must return a bool for each of 5 ids, got int64 (5,)",
        ),
        (
            lambda i: i.search(s8(3), 1, rescore=np.ones(9)),
            ValueError,
            "rescore must have 2 dimensions, got shape (9,)",
        ),
        (
            lambda i: i.search(s8(3), 1, rescore=np.ones((4, 3))),
            ValueError,
            "rescore must have a row at each id, got 4 rows and the id 4",
        ),
        (
            lambda i: i.search(s8(3), 1, rescore=np.ones((5, 4))),
            ValueError,
            "rescore must have vectors of 3 elements, got shape (4, 4)",
        ),
        (lambda i: i.range_search(s8(3), np.nan), ValueError, "radius must be a number, got nan"),
        (lambda i: i.range_search(s8(3), "1"), TypeError, "radius must be a real number, got str"),
    ],
)
def test_errors_change_nothing(call, error, text):
    index = int8blas.Index(3)
    index.add(np.arange(15, dtype=np.int8).reshape(5, 3))
    with refused(error, text):
        call(index)
    assert np.array_equal(index.reconstruct(range(5)), np.arange(15).reshape(5, 3))
    assert len(index) == 5


def test_missing_ids_change_nothing():
    index = int8blas.Index(3)
    index.add(s8(5, 3))
    for call in (
        lambda: index.remove([1, 5]),
        lambda: index.update([5, 2], s8(2, 3)),
        lambda: index.reconstruct([1, 5]),
    ):
        with pytest.raises(KeyError, match="ids must be of vectors in the index, got 5"):
            call()
    assert len(index) == 5
    index.add(s8(3), ids=[2**63 - 2])
    with refused(ValueError, "ids must be given, because the index has the largest possible id"):
        index.add(s8(3))


def test_floats_for_an_index_of_integers():
    index = int8blas.Index(3, "sqeuclidean", "uint8")
    with refused(TypeError, "x must be uint8, got float32"):
        index.add(np.ones((1, 3), np.float32))
    index.add(u8(1, 3))
    with refused(TypeError, "q must be int8 or uint8, got float32: the index has no scale"):
        index.search(np.ones(3, np.float32), 1)
