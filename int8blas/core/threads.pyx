"""The gate to threads: the number of threads that a call may use, and every parallel region of the package::

    threads_for             returns the number of threads for which there is enough work, and which a call may use
    parallel_for            runs each part of a job on any thread
    two_phase_parallel_for  runs parts of two kinds in one region: all parts of the first kind, then the second kind
    run_team                runs the work of a team of threads, which may wait for one another
    run_work                is parallel_for for a caller that holds the GIL

A call may use the number of threads that OpenMP, the environment or ``num_threads`` sets, if the system can create
these threads. A call inside a region uses one thread, so regions never nest. A call in a forked process uses one thread
if the parent has run a region. No result depends on the number of threads, or on the thread that runs a part.

A region ends when its last thread has finished, and OpenMP begins the next region when this thread has come back. If
another process takes a thread's CPU, the thread finishes or comes back a time slice later: after milliseconds, for
parts of microseconds. A caller that has waited for milliseconds therefore runs without regions for a while, and then
tries a region again. If that region is late, the next pause is longer.
"""

import operator
import os
import re

from cython.parallel cimport parallel, prange, threadid
from libc.limits cimport INT_MAX
from libc.stdint cimport int64_t

from int8blas.core.machine cimport this_machine
from int8blas.core.memory cimport close_arena, open_arena
from int8blas.core.split cimport share
from int8blas.core.turns cimport end_turn, forget_runs, keeps_gil, shared_cpus, take_turn
from int8blas.core.thread_setting import ThreadSetting, Variable
from int8blas.core.words import is_option

cdef extern from "core/openmp.h" nogil:
    int i8_omp_max_threads()
    int i8_omp_in_parallel()
    int i8_omp_team_size()
    void i8_omp_barrier()
    double i8_omp_seconds()
    int I8_HAVE_OPENMP

cdef extern from "core/ticks.h" nogil:
    int64_t i8_ticks()

cdef extern from "core/team.h" nogil:
    ctypedef struct i8_team:
        int limit, largest, last, creatable, used
        double pause_end, pause

    enum:
        MOST_THREADS "I8_MOST_THREADS"
    i8_team i8_my_team
    int i8_tries_teams, i8_teams_fill_room
    size_t i8_stack_bytes
    int i8_make_team(int wanted)
    int i8_load "I8_LOAD"(int x)
    void i8_store "I8_STORE"(int x, int value)
    int i8_cgroup_room(const char *list, const char *root)

# The limit of INT8BLAS_NUM_THREADS or num_threads(scope="process"), or 0 without a limit.
cdef int process_limit = 0
# The maximum number of threads of a call: the number of CPUs of the process, because further threads would only wait
# for a CPU, or no limit with INT8BLAS_OVERSUBSCRIBE=1.
cdef int cpus = INT_MAX
# GNU OpenMP's threads do not survive a fork. If the parent has run a parallel region, a region in the child would wait
# for the lost threads forever.
cdef bint region_ran = False
cdef bint forked = False
# `looks_at_ends` says whether a thread runs without regions for a while after a late end of a region.
cdef bint looks_at_ends = True

# LATE is the shortest wait, in seconds, that counts as a time slice of another process. LONGEST is the longest pause
# without regions, in seconds.
cdef double LATE = 1e-3, LONGEST = 0.2
# A number of ticks that is less than LATE on every CPU. A shorter wait needs no conversion to seconds.
cdef int64_t SOON = 10_000
# Time and ticks when this module was loaded. The number of ticks in a second is the difference between the present
# ticks and first_ticks, divided by the difference between the present time and first_seconds.
cdef int64_t first_ticks = i8_ticks()
cdef double first_seconds = i8_omp_seconds()


cdef struct Parts:
    part_fn function
    const void *job
    int64_t count


cdef struct Shares:
    # The parts that the threads of a region share. After a lack of memory, the struct has the number of threads, and
    # the first part that each thread has not run.
    Parts parts
    int threads
    int64_t left[MOST_THREADS]


cdef struct Region:
    # The number of threads that work, and the number of threads of the runtime's team. The remaining threads of the
    # team have no work (see csrc/core/team.h).
    int threads, team
    # The times, in ticks, at which the calling thread began the region and finished its part. `waited` is the number of
    # ticks between both times in which the thread waited for other threads.
    int64_t start, done, waited


cdef int region_threads(int wanted) noexcept nogil:
    """Return the number of threads that the next parallel region may request. The number is `wanted`, or the
    number of threads that the system can create, if this number is smaller.

    Every region first calls region_threads. A caller that divides work by the number of threads may call it earlier.
    """
    cdef i8_team *mine = &i8_my_team
    cdef int threads = wanted
    if wanted <= 1 or (mine.pause_end > 0 and i8_omp_seconds() < mine.pause_end):
        return 1
    i8_store(region_ran, True)
    if wanted > mine.largest or (i8_load(i8_teams_fill_room) and wanted > mine.last):
        threads = i8_make_team(wanted)
    mine.used = threads
    mine.last = max(threads, mine.last) if i8_load(i8_teams_fill_room) else threads
    return threads


cdef inline void begin_region(Region *region, int threads) noexcept nogil:
    region.threads, region.team, region.start = threads, i8_my_team.last, i8_ticks()
    region.done, region.waited = region.start, 0


cdef inline int workers(const Region *region) noexcept nogil:
    """Return the number of threads that work in the region. The runtime may supply fewer threads than requested."""
    return min(region.threads, i8_omp_team_size())


cdef inline void note_wait(Region *region, int64_t since) noexcept nogil:
    """Note that the calling thread has waited for other threads."""
    region.waited += i8_ticks() - since


cdef inline void note_done(Region *region) noexcept nogil:
    region.done = i8_ticks()


cdef inline void end_region(const Region *region) noexcept nogil:
    """After a region, decide whether the calling thread runs without regions for a while."""
    cdef int64_t wait = i8_ticks() - region.done + region.waited
    if wait >= SOON and looks_at_ends:
        look_at_end(region, wait)


cdef void look_at_end(const Region *region, int64_t wait) noexcept nogil:
    """Call `pause_regions` after a region whose calling thread waited `wait` ticks for other threads."""
    cdef double now = i8_omp_seconds(), seconds = now - first_seconds
    cdef double tick = seconds / max(<int64_t>1, i8_ticks() - first_ticks)
    pause_regions(now, wait * tick, (region.threads - 1) * ((region.done - region.start - region.waited) * tick))


cdef void pause_regions(double now, double wait, double saved) noexcept nogil:
    """Run without regions for some time if the wait for other threads was long, and longer than the time `saved` that
    these threads saved. During the pause, which is twice the wait, one thread computes everything. If the last pause
    has just ended, another process still takes the CPU, and the pause is twice the last pause."""
    cdef double pause = 2 * wait
    if wait < LATE or wait < saved:
        return
    if now < i8_my_team.pause_end + i8_my_team.pause:
        pause = max(pause, 2 * i8_my_team.pause)
    i8_my_team.pause = min(pause, LONGEST)
    i8_my_team.pause_end = now + i8_my_team.pause


cdef int threads_for(double work, double thread_work, double most) noexcept nogil:
    """Return the number of threads for which there is enough work. The number is at most `most`, and at most the number
    of threads that the call may use."""
    return paid_threads(work, thread_work, min(most, <double>max_threads()))


cdef int parallel_for(part_fn function, const void *job, int64_t parts, int threads) noexcept nogil:
    """Run all parts of a job on at most `threads` threads. Return 0, or -1 if there was no memory for a part.

    A part does nothing if it gets no memory. The calling thread runs parts without memory again when other parts have
    released their memory.
    """
    cdef Shares s
    cdef int status = 0
    cdef int64_t i
    if parts == 1:
        return function(job, 0, 1)
    threads = region_threads(<int>min(<int64_t>min(threads, <int>MOST_THREADS), parts))
    s.parts, s.threads = Parts(function, job, parts), 0
    open_arena()
    if threads == 1:
        status = 0 if do_parts(&s.parts, 0, parts) == parts else -1
    else:
        for i in range(threads):
            s.left[i] = parts
        if parts == threads:
            run_region(do_share, &s, threads)  # an OpenMP loop has a barrier, which takes 5 % of a small product
        else:
            run_shares(&s, threads)
        if s.threads > 0:
            status = do_rest(&s)
    close_arena()
    return status


cdef int64_t do_parts(const Parts *p, int64_t part, int64_t end) noexcept nogil:
    """Run the parts from `part` to `end`. Return the first part that gets no memory, or `end`."""
    while part < end and p.function(p.job, part, p.count) == 0:
        part += 1
    return part


cdef inline int64_t first_part(const Parts *p, int thread, int threads) noexcept nogil:
    """Return the first part of a thread, which is also the end of the previous thread's parts."""
    return share(p.count, thread, threads)


cdef void do_share(const void *shares, int thread, int threads) noexcept nogil:
    """Run one thread's parts, which are consecutive."""
    cdef Shares *s = <Shares *>shares
    cdef int64_t end = first_part(&s.parts, thread + 1, threads), part
    open_arena()
    part = do_parts(&s.parts, first_part(&s.parts, thread, threads), end)
    close_arena()
    if part < end:
        s.left[thread] = part
        i8_store(s.threads, threads)


cdef void run_shares(Shares *s, int threads) noexcept nogil:
    """Run `do_share` for `threads` threads, even if the runtime supplies fewer threads."""
    cdef Region region
    cdef int thread
    begin_region(&region, threads)
    for thread in prange(threads, num_threads=region.team, schedule="static"):
        if thread == 0:
            note_wait(&region, region.start)
        do_share(s, thread, threads)
        if threadid() == 0:
            note_done(&region)
    end_region(&region)


cdef int do_rest(Shares *s) noexcept nogil:
    """Run the remaining parts of all threads. Return 0, or -1 if there is no memory."""
    cdef int64_t end
    cdef int thread
    for thread in range(s.threads):
        end = first_part(&s.parts, thread + 1, s.threads)
        if do_parts(&s.parts, min(s.left[thread], end), end) < end:
            return -1
    return 0


cdef void wait_for_all(Region *region) noexcept nogil:
    """Wait until all threads of the region have called this function, and note the wait of the first thread."""
    cdef int64_t since = i8_ticks()
    i8_omp_barrier()
    if threadid() == 0:
        note_wait(region, since)


cdef void two_phase_parallel_for(part_fn first, int64_t first_parts, part_fn second, int64_t second_parts,
                                 const void *job, int threads) noexcept nogil:
    """Run parts of two kinds, which need no memory. All parts of the first kind end before the second kind begins."""
    cdef Parts firsts = Parts(first, job, first_parts), seconds = Parts(second, job, second_parts)
    cdef Region region
    threads = region_threads(threads)
    if threads == 1:
        parallel_for(first, job, first_parts, 1)
        parallel_for(second, job, second_parts, 1)
        return
    begin_region(&region, threads)
    with parallel(num_threads=region.team):
        if threadid() == 0:
            note_wait(&region, region.start)
        do_own_parts(&firsts, threadid(), workers(&region))
        wait_for_all(&region)
        do_own_parts(&seconds, threadid(), workers(&region))
        if threadid() == 0:
            note_done(&region)
    end_region(&region)


cdef void do_own_parts(const Parts *p, int thread, int threads) noexcept nogil:
    """Run one thread's parts, which need no memory. A thread without work has no parts."""
    if thread < threads:
        do_parts(p, first_part(p, thread, threads), first_part(p, thread + 1, threads))


cdef int run_work(part_fn function, const void *job, int64_t parts, double work, double thread_work,
                  double gil_work) noexcept:
    """Run all parts on the number of threads for which `work` is enough. Release the GIL, unless releasing it takes
    longer than the work."""
    cdef int status
    if keeps_gil(work, gil_work):
        return parallel_for(function, job, parts, 1)
    with nogil:
        end_turn()
        status = parallel_for(function, job, parts, threads_for(work, thread_work, <double>parts))
        take_turn()
    return status


cdef void run_team(member_fn function, const void *job, int threads) noexcept nogil:
    """Run a region of at most `threads` threads. Each thread calls the function with the number of threads."""
    threads = region_threads(threads)
    if threads == 1:
        function(job, 0, 1)
    else:
        run_region(function, job, threads)


cdef void run_region(member_fn function, const void *job, int threads) noexcept nogil:
    """Run `run_team` with the number of threads that `region_threads` returned."""
    cdef Region region
    begin_region(&region, threads)
    with parallel(num_threads=region.team):
        if threadid() == 0:
            note_wait(&region, region.start)
        if threadid() < threads:
            function(job, threadid(), workers(&region))
        if threadid() == 0:
            note_done(&region)
    end_region(&region)


cdef void forget_regions() noexcept nogil:
    """Reset the number that `region_used` returns."""
    i8_my_team.used = 1


cdef int region_used() noexcept nogil:
    """Return the number of threads of the last parallel region, or 1 if there was no region."""
    return i8_my_team.used


cdef int max_threads() noexcept nogil:
    """Return the maximum number of threads of a call from this thread: at most `allowed_threads`, and while several
    networks run, at most the thread's share of the CPUs."""
    return min(allowed_threads(), shared_cpus(cpus))


cdef int allowed_threads() noexcept nogil:
    """Return the maximum number of threads. The number depends on settings, on the number of threads that can be
    created, and on whether the call is inside a region."""
    cdef const i8_team *mine
    cdef int threads
    if forked or i8_omp_in_parallel():
        return 1
    mine = &i8_my_team
    threads = mine.limit if mine.limit > 0 else process_threads()
    return threads if mine.creatable == 0 else min(threads, mine.creatable)


cdef int process_threads() noexcept nogil:
    """Return the maximum number of threads of a call in a thread without a setting."""
    cdef int limit = i8_load(process_limit)
    return limit if limit > 0 else i8_omp_max_threads()


def _after_fork_in_child():
    global forked
    forked = region_ran
    forget_runs()


def thread_count(value, name):
    """Return a Python value as a positive C int, or raise an error that names the value."""
    try:
        count = operator.index(value)
    except TypeError:
        raise TypeError(f"{name} must be an integer, got {type(value).__name__}") from None
    if not 1 <= count <= MOST_THREADS:
        raise ValueError(f"{name} must be between 1 and {MOST_THREADS}, got {count}")
    return count


def _limit():
    return i8_my_team.limit


def put_limit(limit):
    """Limit the threads of the calls that this thread makes, and return the limit before; 0 means no limit."""
    cdef int before = i8_my_team.limit
    # If `creatable` is 0, the next call determines the possible number of threads again.
    i8_my_team.limit, i8_my_team.creatable = limit, 0
    return before


def _process_limit():
    return process_limit


def _put_process_limit(limit):
    i8_store(process_limit, limit)
    i8_my_team.creatable = 0


_variables = {
    "thread": Variable("num_threads", _limit, put_limit),
    "process": Variable("num_threads", _process_limit, _put_process_limit, "process"),
}


def num_threads(n=..., *, scope="thread"):
    """Use at most `n` threads for each call of this thread or process, from now on. Without `n`, return the limit.

    A call obeys the first limit that is set: the setting of its thread, the setting of the process,
    ``INT8BLAS_NUM_THREADS``, OpenMP's limit for its thread (which ``OMP_NUM_THREADS`` and threadpoolctl set). Small
    problems use fewer threads. No call uses more threads than the process had CPUs when int8blas was imported, unless
    ``INT8BLAS_OVERSUBSCRIBE=1``. If a call waits for its threads because another process has taken a CPU, the next
    calls use one thread, for twice the time of the wait, or for up to 200 ms if the waits continue. Results do not
    depend on the number of threads.

    Parameters
    ----------
    n : int, optional
        The limit, 1 to 1024.
    scope : {"thread", "process"}, optional
        "thread": the setting of the calling thread, which no other thread sees. "process": the setting of all threads
        that have not set scope "thread", including threads that a pool starts later.

    Returns
    -------
    int or context manager
        Without `n`, the number of threads that a call may use now; with ``scope="process"``, the number for a thread
        without a setting. With `n`, an object whose ``with`` block restores the former setting at its end. A plain call
        may ignore this object.

    Raises
    ------
    TypeError, ValueError
        If `n` is not an integer from 1 to 1024, or `scope` is neither "thread" nor "process".

    See Also
    --------
    use_isa : selects an instruction set.

    Notes
    -----
    Any thread may use the object in any number of blocks, which may be nested. A block sets the limit of the thread
    that enters it. At the end of the first block in the thread that made the call, this thread gets the setting from
    before the call, unless a later call has changed the setting. Each other block restores the setting that it found at
    its start. Blocks may end in any order, for example with ``contextlib.ExitStack``. The open block that was entered
    last determines the setting. After the end of all blocks the thread has its first setting again. If a thread leaves
    a block that it has not entered, RuntimeError is raised, and no setting changes. Settings belong to threads, not to
    tasks: during an ``await`` other tasks of the thread see the setting. With ``scope="process"`` all threads share the
    blocks: one thread may leave a block that another thread has entered.

    As a decorator, ``@num_threads(n)``, the setting holds only during each call of the function.

    Examples
    --------
    >>> import numpy as np, int8blas
    >>> a, b = np.full((64, 64), 2, np.uint8), np.full((64, 64), 3, np.int8)
    >>> with int8blas.num_threads(2):
    ...     int8blas.num_threads(), int(int8blas.gemm_u8s8s32(1, a, b)[0, 0])
    (2, 384)

    The threads of a pool have no thread setting, so they obey the setting of the process:

    >>> from concurrent.futures import ThreadPoolExecutor
    >>> with int8blas.num_threads(1, scope="process"), ThreadPoolExecutor() as pool:
    ...     pool.submit(int8blas.num_threads).result()
    1
    """
    if not is_option(scope, ("thread", "process")):
        raise ValueError(f"scope must be 'thread' or 'process', got {scope!r}")
    now = allowed_threads() if scope == "thread" else process_threads()
    return now if n is ... else ThreadSetting(_variables[scope], thread_count(n, "n"), now)


def threading_info():
    """Return a dict: whether OpenMP was compiled in, and the number of threads that a call may use now."""
    return {"openmp": bool(I8_HAVE_OPENMP), "threads": max_threads()}


def cgroup_room(list_, root):
    """Return the number of threads that cgroups still allow, or None without a limit. The file `list` is like
    /proc/self/cgroup, and the cgroups are mounted at `root`."""
    room = i8_cgroup_room(os.fsencode(list_), os.fsencode(root))
    return None if room == INT_MAX else room


def stack_bytes(text):
    """Return the bytes that OMP_STACKSIZE requests. If OMP_STACKSIZE is not a size, return 0, which stands for OpenMP's
    default."""
    size = re.fullmatch(r"\s*(\d+)\s*([bkmg]?)\s*", text, re.ASCII | re.IGNORECASE)
    size = int(size[1]) << {"b": 0, "m": 20, "g": 30}.get(size[2].lower(), 10) if size else 0
    return size if size < 2**63 else 0


def seconds_alone(wait=0.0, saved=0.0, time=None):
    """Return the time for which the calling thread runs without regions after a wait of `wait` seconds at `time`. The
    other threads saved `saved` seconds of the calling thread's work. `time` is a time of OpenMP's clock, by default
    now.
    """
    cdef double now = i8_omp_seconds() if time is None else time
    pause_regions(now, wait, saved)
    return max(0.0, i8_my_team.pause_end - now)


cdef bint switched_on(str name, str default) except -1:
    """Return whether an environment variable is 1, and raise an error if the variable is neither 0 nor 1."""
    value = os.environ.get(name, "") or default
    if value not in ("0", "1"):
        raise ValueError(f"{name} must be 0 or 1, got {value!r}")
    return value == "1"


def _configure():
    global process_limit, cpus, looks_at_ends, i8_tries_teams, i8_stack_bytes
    text = os.environ.get("INT8BLAS_NUM_THREADS", "")
    if text:
        if not text.isascii() or not text.isdigit():
            raise ValueError(f"INT8BLAS_NUM_THREADS must be an integer, got {text!r}")
        process_limit = thread_count(int(text), "INT8BLAS_NUM_THREADS")
    i8_tries_teams = switched_on("INT8BLAS_TRY_THREADS", "1")
    looks_at_ends = not switched_on("INT8BLAS_OVERSUBSCRIBE", "0")
    cpus = this_machine.cores if looks_at_ends else INT_MAX
    i8_stack_bytes = stack_bytes(os.environ.get("OMP_STACKSIZE", "")) or stack_bytes(
        os.environ.get("GOMP_STACKSIZE", ""))
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=_after_fork_in_child)


_configure()
