"""num_threads and use_isa: they take effect at once, in the thread or the process, until the end of a with block."""

import asyncio
import contextlib
import gc
import re
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import pytest
from processes import run_python

import int8blas

ISAS = int8blas.available_isas()


@dataclass(frozen=True)
class Setting:
    """A function and three values for it. The values differ from the initial value if this CPU has enough different
    ones."""

    function: Any
    values: tuple[Any, ...]
    keywords: dict[str, str] = field(default_factory=dict)

    def __call__(self, *arguments):
        return self.function(*arguments, **self.keywords)

    def written(self, value):
        """The source text of the call."""
        keywords = "".join(f", {name}={text!r}" for name, text in self.keywords.items())
        return f"{self.function.__name__}({value!r}{keywords})"


OF_THREADS = [
    Setting(int8blas.num_threads, (5, 6, 7)),
    Setting(int8blas.use_isa, ("ref", ISAS[min(1, len(ISAS) - 1)], "ref")),
]
OF_PROCESS = Setting(int8blas.num_threads, (5, 6, 7), {"scope": "process"})


def named(setting):
    return "-".join((setting.function.__name__, *setting.keywords.values()))


def as_before(setting):
    """A setting, which is restored after the test."""
    with setting(setting()):
        yield setting


@pytest.fixture(params=[*OF_THREADS, OF_PROCESS], ids=named)
def setting(request):
    yield from as_before(request.param)


@pytest.fixture(params=OF_THREADS, ids=named)
def thread_setting(request):
    yield from as_before(request.param)


@pytest.fixture
def process_setting():
    yield from as_before(OF_PROCESS)


def in_a_thread(function):
    """Call the function in a new thread. Return its result, or raise its error."""
    results = []

    def run():
        try:
            results.append(function())
        except Exception as error:
            results.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if isinstance(results[0], Exception):
        raise results[0]
    return results[0]


def test_a_call_is_in_effect_from_then_on(setting):
    for value in setting.values:
        setting(value)
        assert setting() == value


def test_a_call_says_what_is_used(setting):
    assert type(setting()) is type(setting.values[0])
    setting(setting.values[0])
    explanation = int8blas.show_config("dicts")
    assert setting() in (explanation["threading"]["threads"], explanation["isas"]["selected"])


@pytest.mark.parametrize("name", ["nonsense", "", "AVX2"])
def test_an_unknown_isa_is_refused_by_the_call(name):
    before = int8blas.use_isa()
    with pytest.raises(ValueError, match=r"^name must be one of .*ref"):
        int8blas.use_isa(name)
    assert int8blas.use_isa() == before


@pytest.mark.parametrize(("n", "error"), [(-5, ValueError), (0, ValueError), (1025, ValueError), (None, TypeError)])
def test_a_wrong_number_of_threads_is_refused_by_the_call(n, error):
    before = int8blas.num_threads()
    with pytest.raises(error, match=r"^n must be "):
        int8blas.num_threads(n)
    assert int8blas.num_threads() == before


def test_the_result_says_what_it_is(setting):
    before, value = setting(), setting.values[0]
    assert repr(setting(value)) == (f"<int8blas.{setting.written(value)}, before: {before}; a with block undoes it>")


def test_a_call_concerns_its_thread_only(thread_setting):
    others = in_a_thread(thread_setting)
    thread_setting(thread_setting.values[0])
    assert in_a_thread(thread_setting) == others
    in_a_thread(lambda: thread_setting(thread_setting.values[1]))
    assert thread_setting() == thread_setting.values[0]


def test_leaving_a_block_undoes_the_call(setting):
    before, (first, second, _) = setting(), setting.values
    with setting(first) as entered:
        assert setting() == first
    assert setting() == before
    earlier = setting(first)
    assert setting() == first
    with earlier as entered:
        assert entered is earlier
        assert setting() == first
        setting(second)
        assert setting() == second
    assert setting() == before


def test_an_error_undoes_the_call(setting):
    before = setting()
    with contextlib.suppress(KeyError), setting(setting.values[0]):
        raise KeyError
    assert setting() == before


def test_blocks_nest_with_others_and_with_themselves(setting):
    before, (first, second, third) = setting(), setting.values
    outer = setting(first)
    with outer:
        with setting(second), outer:
            assert setting() == first
            with outer, setting(third):
                assert setting() == third
            assert setting() == first
        assert setting() == first
    assert setting() == before


def test_a_setting_is_used_again(setting):
    before, (first, second, _) = setting(), setting.values
    again = setting(first)
    for _ in range(3):
        with again:
            assert setting() == first
        assert setting() == before
    with setting(second):
        with again:
            assert setting() == first
        assert setting() == second
    assert setting() == before


def test_a_block_after_later_calls_restores_what_it_found(setting):
    (first, second, third) = setting.values
    earlier = setting(first)
    setting(second)
    with earlier:
        assert setting() == first
    assert setting() == second
    with setting(third):
        inner = setting(first)
    assert setting() == second
    with inner:
        assert setting() == first
    assert setting() == second


def test_blocks_are_left_in_any_order(setting):
    before, values = setting(), setting.values
    a, b, c = map(setting, values)
    for order in ((a, b, c), (a, c, b), (b, a, c), (b, c, a), (c, a, b), (c, b, a)):
        setting(before)
        opened = [a, b, c]
        for block in opened:
            block.__enter__()
        for block in order:
            block.__exit__(None, None, None)
            opened.remove(block)
            assert setting() == (values[(a, b, c).index(opened[-1])] if opened else before)


def test_a_block_is_entered_by_another_thread(thread_setting):
    others, (first, second, _) = in_a_thread(thread_setting), thread_setting.values
    shared = thread_setting(first)
    thread_setting(second)

    def around():
        with shared:
            within = thread_setting()
        return within, thread_setting()

    assert in_a_thread(around) == (first, others)
    assert thread_setting() == second


def test_a_block_is_not_left_by_another_thread(thread_setting):
    before, (first, _, _) = thread_setting(), thread_setting.values
    others = in_a_thread(thread_setting)
    block = thread_setting(first)
    name = thread_setting.function.__name__
    with block:

        def leave():
            with pytest.raises(
                RuntimeError, match=rf"^{name}\({first!r}\) must be left by the thread that entered it$"
            ):
                block.__exit__(None, None, None)
            return thread_setting()

        assert in_a_thread(leave) == others
        assert thread_setting() == first
    assert thread_setting() == before
    with pytest.raises(RuntimeError, match=rf"^{name}"):
        block.__exit__(None, None, None)
    assert thread_setting() == before


def test_threads_share_a_block(thread_setting):
    first = thread_setting.values[0]
    shared, others = thread_setting(first), in_a_thread(thread_setting)
    meet = threading.Barrier(2)

    def around():
        with shared:
            meet.wait()
            within = thread_setting()
            meet.wait()
        return within, thread_setting()

    results = []
    threads = [threading.Thread(target=lambda: results.append(around())) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [(first, others)] * 2


def test_a_decorated_function_has_it_during_its_calls(setting):
    before, (first, second, _) = setting(), setting.values

    @setting(first)
    def nested(depth, *, to):
        """Says what is set."""
        assert setting() == first
        with setting(second):
            return [*nested(depth - 1, to=to), setting()] if depth else to

    assert setting() == before
    assert (nested.__name__, nested.__doc__) == ("nested", "Says what is set.")
    assert nested(2, to=[]) == [second] * 2
    assert setting() == before
    assert in_a_thread(lambda: nested(1, to=[])) == [second]
    with setting(second):
        assert nested(0, to=[3]) == [3]
        assert setting() == second
    assert setting() == before


def test_a_decorator_is_checked_when_it_is_made():
    with pytest.raises(ValueError, match=r"^n must be "):

        @int8blas.num_threads(0)
        def function():
            """Is never made."""


def test_a_decorated_function_must_end_with_its_call(setting):
    async def coroutine():
        """Runs after the call."""

    async def asynchronous():
        yield

    def generator():
        yield

    before = setting()
    for function in (coroutine, asynchronous, generator):
        with setting(setting.values[0]) as decorator, pytest.raises(TypeError, match=r"^function must not be a gene"):
            decorator(function)
    assert setting() == before


def test_tasks_leave_blocks_as_they_end(setting):
    before, (first, second, _) = setting(), setting.values

    async def use(value, first_to_leave, other):
        with setting(value):
            await asyncio.sleep(0)
            if other is not None:
                await other.wait()
        first_to_leave.set()

    async def both():
        one, two = asyncio.Event(), asyncio.Event()
        await asyncio.gather(use(first, one, None), use(second, two, one))

    asyncio.run(both())
    assert setting() == before


def test_calls_in_a_row_keep_nothing(setting):
    block = setting(setting.values[0])
    kept = weakref.ref(block)
    setting(setting.values[1])
    del block
    gc.collect()
    assert kept() is None


# ---------------------------------------------------------------------------------------- the setting of a process ----


def test_the_threads_of_a_pool_have_the_setting_of_the_process(process_setting):
    with ThreadPoolExecutor(1) as pool:
        pool.submit(int).result()  # the thread exists before the setting
        before = pool.submit(int8blas.num_threads).result()
        with process_setting(7):
            assert pool.submit(int8blas.num_threads).result() == 7
            assert in_a_thread(int8blas.num_threads) == 7
        assert pool.submit(int8blas.num_threads).result() == before


def test_the_setting_of_a_thread_goes_before_that_of_the_process(process_setting):
    process_setting(7)
    with int8blas.num_threads(5):
        assert (int8blas.num_threads(), process_setting()) == (5, 7)
        assert in_a_thread(int8blas.num_threads) == 7
        process_setting(6)
        assert int8blas.num_threads() == 5
    assert int8blas.num_threads() == 6


def test_the_setting_of_the_process_goes_before_the_environment():
    code = "import int8blas; print(int8blas.num_threads(), int8blas.num_threads(scope='process'))"
    code += "; int8blas.num_threads(5, scope='process'); print(int8blas.num_threads())"
    process = run_python("-c", code, INT8BLAS_NUM_THREADS="3")
    assert (process.stdout.split(), process.stderr) == (["3", "3", "5"], "")


def test_one_thread_enters_a_block_and_another_leaves_it(process_setting):
    before = process_setting()
    block = process_setting(7)
    in_a_thread(block.__enter__)
    assert in_a_thread(int8blas.num_threads) == 7
    block.__exit__(None, None, None)
    assert process_setting() == before
    with pytest.raises(
        RuntimeError, match=r"^num_threads\(7, scope='process'\) must be left by the process that entered it$"
    ):
        block.__exit__(None, None, None)


@pytest.mark.parametrize("scope", ["program", "", None, 1, []])
def test_a_wrong_scope_is_refused(scope):
    before = int8blas.num_threads(), int8blas.num_threads(scope="process")
    for arguments in ((), (2,)):
        with pytest.raises(ValueError, match=rf"^scope must be 'thread' or 'process', got {re.escape(repr(scope))}$"):
            int8blas.num_threads(*arguments, scope=scope)
    assert (int8blas.num_threads(), int8blas.num_threads(scope="process")) == before
