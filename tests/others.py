"""A check that other Python threads run during a call."""

import sys
import threading


def assert_other_threads_run_during(call):
    """At least one of many calls lets another thread run, because it releases the GIL."""
    gate, ran = threading.Lock(), []

    def pass_the_gate():
        with gate:
            ran.append(True)

    other = threading.Thread(target=pass_the_gate)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(3600)  # from here on only a call that releases the GIL lets the other thread run
    try:
        gate.acquire()
        other.start()
        gate.release()
        for _ in range(5000):
            call()
            if ran:
                break
        assert ran
    finally:
        sys.setswitchinterval(interval)
        other.join()
