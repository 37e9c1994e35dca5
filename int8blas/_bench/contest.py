"""One measured run: bind contestants to problems, check their results, and measure them in turn."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from int8blas._bench.peers import ours
from int8blas._bench.peers.base import Peer, Prepared
from int8blas._bench.results import Entry
from int8blas._bench.timing import Plan, Timing, measure

MIN_SAMPLE = 5e-4  # seconds; shorter calls are repeated within a sample
SETTLE = 5e-3  # seconds between contestants if threads of the previous contestant may still spin


def prepare(operands: Any, contestants: Iterable[Peer], threads: int) -> tuple[dict[str, Entry], dict[str, Prepared]]:
    """Bind the operands of a problem to every contestant, run each contestant once, and check its result."""
    entries, prepared = {}, {}
    for peer in contestants:
        if not peer.supports(operands.problem):
            continue
        entry = Entry(peer.name, peer.kind, peer.library == ours.LIBRARY, peer.comparable)
        entries[peer.name] = entry
        try:
            ready = peer.prepare(operands, threads)
            ready.run()
            entry.fault = ready.check()
            prepared[peer.name] = ready
        except Exception as error:  # report a peer that refuses a shape, and measure the other peers
            entry.fault = f"did not run: {type(error).__name__}: {(str(error).splitlines() or [''])[0]}"
    return entries, prepared


def take_turns(
    setups: Sequence[tuple[dict[str, Entry], dict[str, Prepared]]],
    schedule: Plan,
    others: Mapping[str, Callable[[], object]],
    watch: Callable[[], object] | None = None,
) -> dict[str, Timing]:
    """Measure the prepared contestants of each problem, and `others`, in one interleaved run.

    Set the timings of the entries, and return the timings of `others`. `watch` is passed to `measure`.
    """
    calls = {(i, name): ready.run for i, (_, bound) in enumerate(setups) for name, ready in bound.items()}
    timings = measure(calls | {(-1, name): call for name, call in others.items()}, schedule, watch)
    for index, (entries, prepared) in enumerate(setups):
        for name in prepared:
            entries[name].timing = timings[index, name]
    return {name: timings[-1, name] for name in others}
