"""Python in a separate process, for tests that may crash or that need a new process."""

import copy
import multiprocessing
import os
import pickle
import subprocess
import sys

import pytest

import int8blas

# A process that takes longer hangs. Other processes may use most of the CPU time.
TIMEOUT_S = 600

# AddressSanitizer's runtime replaces malloc(), and must be loaded before everything else.
SANITIZED = "asan" in os.environ.get("LD_PRELOAD", "")
needs_plain_memory = pytest.mark.skipif(SANITIZED, reason="memory is a sanitizer's")
needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
forks_on_purpose = pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")


def assert_a_forked_child_sends(expected, send, *arguments):
    """Check that a forked child that calls send(*arguments, connection) sends these bytes and ends."""
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    child = context.Process(target=send, args=(*arguments, sender), daemon=True)
    try:
        child.start()
        assert receiver.poll(TIMEOUT_S), "the child hangs"
        assert receiver.recv_bytes() == expected
        child.join(TIMEOUT_S)
        assert child.exitcode == 0
    finally:
        child.kill()


def through_pickle(layer):
    """The layer after pickling, with and without out-of-band buffers, and after copying."""
    buffers = []
    data = pickle.dumps(layer, protocol=5, buffer_callback=buffers.append)
    yield pickle.loads(data, buffers=[bytearray(buffer) for buffer in buffers])
    yield from (pickle.loads(pickle.dumps(layer, protocol)) for protocol in range(2, 6))
    yield copy.copy(layer)
    yield copy.deepcopy(layer)


def run_python(*arguments, **environment):
    """The exit status, output and error output of Python with these arguments and only these settings of int8blas; it
    may use more threads than the machine has."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("INT8BLAS_")}
    return subprocess.run(
        [sys.executable, *arguments],
        env=inherited | {"INT8BLAS_OVERSUBSCRIBE": "1"} | environment,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )


def send_result(isa, layer, src, connection):
    """Execute a layer in a child process and send the bytes to the parent."""
    with int8blas.use_isa(isa), int8blas.num_threads(4):
        connection.send_bytes(layer(src).tobytes())
