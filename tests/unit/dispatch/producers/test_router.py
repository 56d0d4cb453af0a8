"""The router: bounds on what is in flight, nothing lost, and no partition delayed by another that stalls."""

import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dispatcher.model.errors import InvalidInput, Unreachable
from dispatcher.ports import Done
from dispatcher.wire.envelope import MAX_ENVELOPE_BYTES
from producers.publish.router import QueueFull, Router, RouterSettings
from producers.publish.tuning import ProducerSettings
from tests.unit.dispatch.consumers.fakes import eventually
from tests.virtual_clock import VirtualClock

DEADLINE_S = 10.0
Start = Callable[[Callable[[], None]], threading.Thread]


class Held:
    """A partition whose answers the test gives."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        self.sends: list[int] = []
        """Messages of each call."""
        self.waiting: deque[Done] = deque()
        self.refuses: Unreachable | None = None
        self.closed = False

    def send(self, bodies: Sequence[bytes], done: Done) -> None:
        if self.refuses is not None:
            raise self.refuses
        self.bodies += bodies
        self.sends.append(len(bodies))
        self.waiting.append(done)

    @property
    def owed(self) -> list[bytes]:
        """The messages that are not answered."""
        answered = len(self.sends) - len(self.waiting)
        return self.bodies[sum(self.sends[:answered]) :]

    def answer(self, error: Exception | None = None) -> None:
        self.waiting.popleft()(error)

    def close(self) -> None:
        self.closed = True


class Prompt(Held):
    """Answers at once."""

    def send(self, bodies: Sequence[bytes], done: Done) -> None:
        super().send(bodies, done)
        self.answer()


def producer(partitions: int, pending: int = 8, batch: int = 4, share: int = 10_000) -> ProducerSettings:
    return ProducerSettings(
        partitions=partitions,
        pending_messages=pending,
        pending_messages_all=pending * partitions,
        memory_bytes=share * partitions,
        batch_messages=batch,
        batch_bytes=share // 2,
        batch_delay_ms=100,
    )


def numbered(start: int, count: int, size: int = 10) -> list[bytes]:
    return [str(number).encode().rjust(size, b".") for number in range(start, start + count)]


def router_of(partitions: Sequence[Held], made: ProducerSettings, **chosen: Any) -> tuple[Router, VirtualClock]:
    clock = VirtualClock()
    return Router(partitions, made, RouterSettings(**chosen), clock.monotonic_s), clock


def answer_all(partitions: Sequence[Held], router: Router) -> int:
    """Answer everything that waits. Return how many messages are confirmed."""
    for partition in partitions:
        while partition.waiting:
            partition.answer()
    return router.confirmed()


def two_held(**chosen: Any) -> tuple[list[Held], Router, VirtualClock]:
    partitions = [Held(), Held()]
    return partitions, *router_of(partitions, producer(2), **chosen)


@pytest.fixture
def in_background() -> Iterator[Start]:
    threads: list[threading.Thread] = []

    def start(work: Callable[[], None]) -> threading.Thread:
        threads.append(threading.Thread(target=work, daemon=True))
        threads[-1].start()
        return threads[-1]

    yield start
    for thread in threads:
        thread.join(DEADLINE_S)
        assert not thread.is_alive()


# ---------------------------------------------------------------- turns
def test_a_sender_that_waits_for_long_logs_its_task_and_what_to_do(
    in_background: Start, caplog: pytest.LogCaptureFixture
) -> None:
    partition = Held()
    router, clock = router_of([partition], producer(1), late_s=0.01, task="sale")
    router.send_many(numbered(0, 3))
    in_background(router.flush)
    clock.advance(31.0)
    eventually(lambda: "task sale got no receipt from Pulsar for 31 s" in caplog.text)
    assert "fairlane estate capture --task sale" in caplog.text
    partition.answer()


def test_a_stall_is_logged_once_and_the_next_one_again(caplog: pytest.LogCaptureFixture) -> None:
    partition = Held()
    router, clock = router_of([partition], producer(1, pending=100), note_stall_s=10.0)
    before = threading.active_count()
    for seconds, logged in ((9.0, 0), (2.0, 1), (20.0, 1)):
        router.send_many(numbered(0, 1))
        clock.advance(seconds)
        router.send_many(numbered(0, 1))
        eventually(lambda: threading.active_count() == before)
        assert len(caplog.records) == logged
    answer_all([partition], router)
    router.send_many(numbered(0, 1))
    clock.advance(11.0)
    router.send_many(numbered(0, 1))
    eventually(lambda: len(caplog.records) == 2)


def test_the_partition_changes_once_a_batch() -> None:
    partitions = [Held(), Held(), Held()]
    router, _ = router_of(partitions, producer(3))
    for start in range(0, 24, 3):
        router.send_many(numbered(start, 3))
    whole = numbered(0, 24)
    assert partitions[0].bodies == whole[0:4] + whole[12:16]
    assert partitions[1].bodies == whole[4:8] + whole[16:20]
    assert partitions[2].bodies == whole[8:12] + whole[20:24]


def test_a_batch_ends_at_its_bytes_too() -> None:
    partitions = [Held(), Held()]
    router, _ = router_of(partitions, producer(2, batch=4, share=60))  # batches of 30 bytes
    router.send_many(numbered(0, 8, size=12))
    assert [len(partition.bodies) for partition in partitions] == [4, 4]
    assert [partition.sends for partition in partitions] == [[2, 2], [2, 2]]


def test_a_batch_that_the_client_has_sent_meanwhile_is_not_gone_on_with() -> None:
    partitions, router, clock = two_held()
    router.send_many(numbered(0, 1))
    clock.advance(0.2)
    router.send_many(numbered(1, 1))
    assert [partition.sends for partition in partitions] == [[1], [1]]


# ---------------------------------------------------------------- a partition that stalls
def test_a_silent_partition_gets_nothing_new_until_it_answers() -> None:
    partitions = [Held(), Prompt(), Prompt()]
    router, clock = router_of(partitions, producer(3, pending=100))
    router.send_many(numbered(0, 4))
    clock.advance(1.0)
    router.send_many(numbered(4, 400))
    assert partitions[0].sends == [4]
    assert [len(partition.bodies) for partition in partitions[1:]] == [200, 200]
    assert router.confirmed() == 0
    partitions[0].answer()
    assert router.confirmed() == 404
    router.send_many(numbered(404, 12))
    assert [len(partition.bodies) for partition in partitions] == [8, 204, 204]


def test_one_that_is_full_holds_up_no_other_and_takes_no_more_than_its_part_of_the_memory() -> None:
    partitions = [Held(), Prompt()]
    router, _ = router_of(partitions, producer(2, pending=1_000, share=200))
    router.send_many(numbered(0, 1_000))
    assert sum(map(len, partitions[0].owed)) == 200
    assert [len(partition.bodies) for partition in partitions] == [20, 980]


def test_if_all_are_silent_those_with_room_go_on() -> None:
    partitions, router, clock = two_held()
    router.send_many(numbered(0, 8))
    clock.advance(10.0)
    router.send_many(numbered(8, 8))
    assert [len(partition.bodies) for partition in partitions] == [8, 8]


# ---------------------------------------------------------------- a full queue
def test_a_full_queue_waits(in_background: Start) -> None:
    partitions, router, _ = two_held()
    router.send_many(numbered(0, 16))
    sender = in_background(lambda: router.send_many(numbered(16, 4)))
    eventually(sender.is_alive)
    assert [len(partition.owed) for partition in partitions] == [8, 8]
    partitions[1].answer()
    sender.join(DEADLINE_S)
    assert partitions[1].bodies[-4:] == numbered(16, 4)


def test_a_full_queue_fails_where_that_was_chosen_and_nothing_of_it_is_sent() -> None:
    partitions, router, _ = two_held(when_full="fail")
    router.send_many(numbered(0, 16))
    with pytest.raises(QueueFull, match="0: 8, 1: 8"):
        router.send_many(numbered(16, 1))
    partitions[0].answer()
    with pytest.raises(QueueFull) as raised:
        router.send_many(numbered(16, 10))
    assert raised.value.taken == 4
    assert partitions[0].bodies[8:] == numbered(16, 4)


def test_nothing_answered_for_long_is_an_error_not_an_endless_wait() -> None:
    _, router, clock = two_held(stall_s=60.0)
    router.send_many(numbered(0, 16))
    clock.advance(61.0)
    with pytest.raises(Unreachable, match="confirmed nothing for 60 s"):
        router.send_many(numbered(16, 1))
    with pytest.raises(Unreachable, match="confirmed nothing for 60 s"):
        router.flush()


def test_a_message_that_is_larger_than_a_share_passes_alone() -> None:
    partitions = [Held()]
    router, _ = router_of(partitions, producer(1, share=100), when_full="fail")
    router.send_many([b"x" * 1_000])
    with pytest.raises(QueueFull):
        router.send_many([b"y"])
    partitions[0].answer()
    router.send_many([b"y"])


def test_one_that_no_broker_takes_is_refused_before_anything_is_sent() -> None:
    partitions = [Prompt()]
    router, _ = router_of(partitions, producer(1))
    with pytest.raises(InvalidInput):
        router.send_many([b"small", b"x" * (MAX_ENVELOPE_BYTES + 1)])
    assert not partitions[0].bodies


# ---------------------------------------------------------------- failures
def test_after_a_failure_everything_fails_and_what_was_confirmed_stays_so() -> None:
    partitions, router, _ = two_held()
    router.send_many(numbered(0, 12))
    partitions[0].answer()
    partitions[1].answer(Unreachable("The topic is gone."))
    partitions[0].answer()
    assert router.confirmed() == 4
    attempts: list[Callable[[], object]] = [lambda: router.send_many(numbered(12, 1)), router.flush]
    for attempt in attempts:
        with pytest.raises(Unreachable, match="The topic is gone"):
            attempt()
    router.close()
    assert all(partition.closed for partition in partitions)


def test_a_partition_that_takes_nothing_fails_the_router() -> None:
    partitions = [Prompt(), Held()]
    partitions[1].refuses = Unreachable("It is closed.")
    router, _ = router_of(partitions, producer(2))
    with pytest.raises(Unreachable, match="It is closed"):
        router.send_many(numbered(0, 8))
    assert router.confirmed() == 4


# ---------------------------------------------------------------- any order of answers
@given(st.data(), st.integers(1, 5), st.integers(1, 12), st.integers(1, 6))
@settings(max_examples=60, deadline=None)
def test_bounds_hold_and_confirmed_has_no_gap(data: st.DataObject, count: int, pending: int, batch: int) -> None:
    partitions = [Held() for _ in range(count)]
    made = producer(count, pending, min(batch, pending), share=200)
    router, clock = router_of(partitions, made, when_full="fail")
    sent, stored = 0, set[bytes]()
    for _ in range(data.draw(st.integers(0, 40))):
        clock.advance(data.draw(st.sampled_from([0.0, 0.01, 0.3, 1.0])))
        if data.draw(st.booleans()):
            try:
                router.send_many(numbered(sent, 1))
                sent += 1
            except QueueFull:
                assert all(partition.owed for partition in partitions)
        elif waiting := [number for number, partition in enumerate(partitions) if partition.waiting]:
            number = data.draw(st.sampled_from(waiting))
            owed = partitions[number].owed
            partitions[number].answer()
            stored |= set(owed) - set(partitions[number].owed)
        for partition in partitions:
            assert len(partition.owed) <= pending
            assert sum(map(len, partition.owed)) <= 200 or len(partition.owed) == 1
        gap = next((number for number in range(sent) if numbered(number, 1)[0] not in stored), sent)
        assert router.confirmed() == gap
    assert sorted(body for partition in partitions for body in partition.bodies) == sorted(numbered(0, sent))
