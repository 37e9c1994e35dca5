"""Run problems in a separate process, which may crash, and make a failing problem smaller."""

import contextlib
import faulthandler
import gc
import mmap
import os
import select
import signal
import struct
import time
import traceback
import warnings
import zlib
from dataclasses import dataclass, field

import numpy as np
from layers import assert_same_bits

import int8blas

from . import family
from .draws import Draws, make_pools

THREADS = (1, 1, 1, 1, 1, 1, 2, 3, 4, 16)
HANG_S = 300
CANDIDATES = 600
PROGRESS = struct.Struct("q")


@dataclass
class Report:
    """The outcome of a process."""

    count: int = 0
    seconds: float = 0.0
    failed: int | None = None
    error: str = ""


@dataclass
class Setting:
    """The settings of a campaign, equal for all problems."""

    seed: int
    isas: tuple = ()
    pools: dict = field(default_factory=dict)

    def __post_init__(self):
        self.isas = self.isas or int8blas.available_isas()
        self.pools = self.pools or make_pools(self.seed)

    def seed_of(self, name, number):
        """The seed of one problem."""
        return (self.seed << 96) + (zlib.crc32(name.encode()) << 64) + number


def drawn(setting, name, draws):
    """A problem, with the instruction set and the threads that it is computed with."""
    isa, threads = draws.among(setting.isas), draws.among(THREADS)
    return isa, threads, family(name).problem(draws)


def same(results, expected):
    """Whether two tuples of arrays have the same types, shapes and bits, where all NaN count as equal."""
    for result, wanted in zip(results, expected, strict=True):
        if result.dtype != wanted.dtype or result.shape != wanted.shape or result.tobytes() != wanted.tobytes():
            assert_same_bits(result, wanted)


def check(name, isa, threads, problem):
    """Raise AssertionError unless the results equal the oracle's results."""
    module = family(name)
    with int8blas.use_isa(isa), int8blas.num_threads(threads):
        results = module.run(problem)
    same(results, module.oracle(problem))


@contextlib.contextmanager
def quiet():
    """A context without warnings of saturated results and of float32 overflow in an oracle."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore", RuntimeWarning)
        yield


def go(setting, name, first, count, until, progress):
    """Run problems from number `first` on, until `count` are done, time is up, or one fails."""
    report, begin = Report(), time.perf_counter()
    with quiet():
        while report.count < count and time.perf_counter() < until:
            number = first + report.count
            PROGRESS.pack_into(progress, 0, number)
            try:
                check(name, *drawn(setting, name, Draws(setting.pools, setting.seed_of(name, number))))
            except Exception:
                report.failed, report.error = number, traceback.format_exc()
                break
            report.count += 1
    report.seconds = time.perf_counter() - begin
    return report


def in_process(work, progress=None):
    """Call `work` in a forked process; return its string, and how the process ended if it failed."""
    readable, writable = os.pipe()
    child = os.fork()
    if child == 0:
        gc.disable()  # there is little to collect, and looking for it takes a twentieth of the time
        faulthandler.disable()
        status = 1
        with contextlib.suppress(BaseException):
            os.close(readable)
            with os.fdopen(writable, "w") as stream:
                stream.write(work())
            status = 0
        os._exit(status)
    os.close(writable)
    with os.fdopen(readable, "rb") as stream:
        seen, moved, parts = None, time.monotonic(), []
        while True:
            if select.select([stream], [], [], 1.0)[0]:
                parts.append(os.read(stream.fileno(), 1 << 16))
                if not parts[-1]:
                    break
            number = progress and PROGRESS.unpack_from(progress)[0]
            seen, moved = (seen, moved) if number == seen and seen is not None else (number, time.monotonic())
            if time.monotonic() - moved > HANG_S:
                os.kill(child, signal.SIGKILL)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    ended = "" if status == 0 else f"the process ended by {signal.Signals(-status).name if status < 0 else status}"
    return b"".join(parts).decode(), ended


def ran(setting, name, first, count=1 << 62, seconds=1e9):
    """The report of problems that a separate process computes."""
    progress = mmap.mmap(-1, PROGRESS.size)
    PROGRESS.pack_into(progress, 0, first)
    begin = time.perf_counter()

    def work():
        report = go(setting, name, first, count, begin + seconds, progress)
        return repr((report.count, report.seconds, report.failed, report.error))

    text, ended = in_process(work, progress)
    if ended:
        (number,) = PROGRESS.unpack_from(progress)
        return Report(number - first, time.perf_counter() - begin, number, ended)
    count, seconds, failed, error = eval(text)  # written by this program
    return Report(count, seconds, failed, error)


def fails(setting, name, decisions):
    """Return the decisions that the problem uses if it fails, else None."""
    draws = Draws(setting.pools, decisions=decisions)
    with quiet():
        problem = drawn(setting, name, draws)
        try:
            check(name, *problem)
        except Exception:
            return draws.made
    return None


def fails_or_crashes(setting, name, decisions):
    """Return the result of :func:`fails`, but run the problem in a separate process, which may crash."""
    text, ended = in_process(lambda: repr(fails(setting, name, decisions)))
    return list(decisions) if ended else eval(text)


def simpler(decisions):
    """Lists of decisions with fewer or smaller numbers, the simplest first."""
    length = len(decisions)
    size = length
    while size:
        for start in range(0, length, size):
            if any(decisions[start : start + size]):
                yield [*decisions[:start], *[0] * len(decisions[start : start + size]), *decisions[start + size :]]
        size //= 2
    for divisor in (2, 1.2):
        for i, number in enumerate(decisions):
            if number > 1:
                yield [*decisions[:i], int(number / divisor), *decisions[i + 1 :]]
    for i, number in enumerate(decisions):
        if number:
            yield [*decisions[:i], number - 1, *decisions[i + 1 :]]


def simplest(setting, name, decisions, fails):
    """Decisions that fail too, and are as simple as `CANDIDATES` attempts find."""
    left, progressed = CANDIDATES, True
    while left and progressed:
        progressed = False
        for candidate in simpler(decisions):
            if not left:
                break
            left -= 1
            if (made := fails(setting, name, candidate)) is not None and made != decisions:
                decisions, progressed = made, True
                break
    return decisions


def shrunk(setting, name, decisions):
    """Return the simplest decisions that fail; use one process, or, if problems crash, one for each."""
    text, ended = in_process(lambda: repr(simplest(setting, name, decisions, fails)))
    return simplest(setting, name, decisions, fails_or_crashes) if ended else eval(text)


def decisions_of(setting, name, number):
    """The decisions of a problem by its number."""
    draws = Draws(setting.pools, setting.seed_of(name, number))
    drawn(setting, name, draws)
    return draws.made
