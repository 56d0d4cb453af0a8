"""One thread that fails stops the worker; those that do not end in time are named."""

import threading

from fairlane.worker.process.threads import Threads

TIMEOUT_S = 10.0


def test_a_thread_that_fails_stops_the_worker_and_the_first_failure_is_kept() -> None:
    over = threading.Event()
    threads = Threads(over)

    def fail(_: threading.Event) -> None:
        raise KeyError("first")

    def fail_later(stop: threading.Event) -> None:
        stop.wait(TIMEOUT_S)
        raise KeyError("second")

    threads.start("later", fail_later)
    threads.start("first", fail)
    assert over.wait(TIMEOUT_S)
    assert threads.join(TIMEOUT_S) == []
    assert repr(threads.failure) == "KeyError('first')"


def test_threads_that_do_not_end_in_time_are_named() -> None:
    threads, release = Threads(threading.Event()), threading.Event()

    def wait(event: threading.Event) -> None:
        event.wait(TIMEOUT_S)

    threads.start("slow", lambda _: wait(release))
    threads.start("quick", wait)
    assert threads.join(0.05) == ["slow"]
    release.set()
    assert threads.join(TIMEOUT_S) == []
    assert threads.failure is None
