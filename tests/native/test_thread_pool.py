"""The thread pool: every thread works, none waits forever, none keeps a core busy when idle."""

from __future__ import annotations

import multiprocessing
import os
import threading
import time
from multiprocessing.connection import Connection

import pytest

from oneglance.engine.native import is_available, why_unavailable

if not is_available():
    pytest.skip(str(why_unavailable()), allow_module_level=True)

from oneglance import _native


@pytest.mark.parametrize("num_threads", [1, 2, 3, 8])
def test_all_threads_meet_at_every_barrier(num_threads: int) -> None:
    runtime = _native.Runtime("portable", num_threads)
    assert runtime.num_threads == num_threads
    for num_rounds in (0, 1, 50):
        assert _native.probe_pool(runtime, num_rounds) == [num_rounds] * num_threads


@pytest.mark.parametrize("failing_thread", [0, 1, 2])
def test_an_exception_reaches_the_caller_and_nobody_waits_forever(failing_thread: int) -> None:
    runtime = _native.Runtime("portable", 3)
    for _ in range(20):
        with pytest.raises(RuntimeError, match=f"thread {failing_thread}"):
            _native.probe_pool(runtime, 5, failing_thread)
    assert _native.probe_pool(runtime, 5) == [5, 5, 5]


@pytest.mark.parametrize("num_threads", [0, -1, 257])
def test_impossible_numbers_of_threads(num_threads: int) -> None:
    with pytest.raises(ValueError, match=f"from 1 to 256, not {num_threads}"):
        _native.Runtime("portable", num_threads)


def test_calls_of_several_python_threads_are_served_one_after_another() -> None:
    # Two runtimes of one size share a pool; one of another size has its own.
    runtimes = [_native.Runtime("portable", size) for size in (2, 2, 3)]
    results: list[tuple[int, list[int]]] = []

    def call(runtime: _native.Runtime) -> None:
        for _ in range(30):
            results.append((runtime.num_threads, _native.probe_pool(runtime, 3)))

    threads = [threading.Thread(target=call, args=(runtime,)) for runtime in runtimes * 2]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 30 * len(threads)
    assert all(rounds == [3] * size for size, rounds in results)


def test_idle_workers_sleep() -> None:
    runtime = _native.Runtime("portable", 4)
    _native.probe_pool(runtime, 100)
    time.sleep(0.05)  # longer than a worker spins
    before = time.process_time()
    time.sleep(0.3)
    busy_seconds = time.process_time() - before
    # Three spinning workers would use at least the 0.3 s of one core.
    assert busy_seconds < 0.03
    assert _native.probe_pool(runtime, 100) == [100] * 4


def test_a_runtime_that_goes_takes_its_workers_with_it() -> None:
    def num_threads() -> int:
        return len(os.listdir("/proc/self/task"))  # noqa: PTH208

    if not os.path.exists("/proc/self/task"):  # noqa: PTH110
        pytest.skip("counts threads by /proc")
    before = num_threads()
    runtime = _native.Runtime("portable", 7)
    assert num_threads() == before + 6
    del runtime
    assert num_threads() == before


def _probe_in_child(runtime: _native.Runtime, connection: Connection) -> None:
    connection.send(_native.probe_pool(runtime, 20))
    connection.close()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this platform cannot fork")
def test_a_forked_child_has_workers_of_its_own() -> None:
    runtime = _native.Runtime("portable", 3)
    _native.probe_pool(runtime, 1)
    context = multiprocessing.get_context("fork")
    for _ in range(2):
        receiver, sender = context.Pipe(duplex=False)
        child = context.Process(target=_probe_in_child, args=(runtime, sender))
        child.start()
        assert receiver.poll(10), "the child hangs"
        assert receiver.recv() == [20, 20, 20]
        child.join(10)
        assert child.exitcode == 0
    assert _native.probe_pool(runtime, 20) == [20, 20, 20]
