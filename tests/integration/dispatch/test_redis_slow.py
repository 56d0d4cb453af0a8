"""A Redis that answers 100 ms late, whatever it is asked: sending keeps at least 80 % of its rate."""

import queue
import socket
import threading
import time
from bisect import bisect_left
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path

import pytest

from benchmarks import redis_server
from benchmarks.cuttable_proxy import Change, CuttableProxy, hang_up, serving
from fairlane import PushClient, PushTask, Settings
from tests.actors import running
from tests.integration.worker_crew import crew, delivered_at_s, on_redis

DELAY_S = 0.1
CHUNK = 1 << 16
SPELL_S, SETTLING_S = 2.0, 0.7
"""Redis is slow and prompt in turns, for so long each: a machine that others share may be half as fast half a minute
later. What is delivered at the beginning of a spell does not count."""

Spell = tuple[float, float]
"""Wall times in which the delay was the same, the settling left out."""


class DelayingProxy(CuttableProxy):
    """A proxy that passes on what the server says after a while, in order and at full width."""

    delay_s = 0.0
    """From now on; may be set at any time, from any thread."""

    def _pass_on(self, source: socket.socket, to: socket.socket, changed: Change) -> None:
        late: queue.Queue[tuple[float, bytes]] = queue.Queue()
        writer = threading.Thread(target=_write_late, args=(late, to), daemon=True)
        writer.start()
        is_answer = changed == self._from_server
        with suppress(OSError):
            while chunk := source.recv(CHUNK):
                late.put((time.monotonic() + self.delay_s * is_answer, chunk))
        late.put((0.0, b""))
        writer.join()


def _write_late(late: "queue.Queue[tuple[float, bytes]]", to: socket.socket) -> None:
    while (due := late.get())[1]:
        time.sleep(max(0.0, due[0] - time.monotonic()))
        with suppress(OSError):
            to.sendall(due[1])
    hang_up([to])


@dataclass
class Spells:
    """Times in which a Redis answers late, and times between."""

    prompt: list[Spell] = field(default_factory=list)
    late: list[Spell] = field(default_factory=list)

    def alternate(self, proxy: DelayingProxy, over: threading.Event) -> None:
        """Until it is over."""
        while not over.is_set():
            for delay_s, spells in ((0.0, self.prompt), (DELAY_S, self.late)):
                proxy.delay_s = delay_s
                began_s = time.time()
                if over.wait(SPELL_S):
                    return
                spells.append((began_s + SETTLING_S, time.time()))


@contextmanager
def alternating(proxy: DelayingProxy) -> Iterator[Spells]:
    spells = Spells()
    with running(lambda over: spells.alternate(proxy, over)):
        yield spells


class Deliveries:
    """When how many targets were delivered, from the first tenth to the last: neither start nor end counts."""

    def __init__(self, sent: list[tuple[float, int]]) -> None:
        sent.sort()
        self._times_s = [at_s for at_s, _ in sent]
        self._totals = [0, *accumulate(targets for _, targets in sent)]
        first, last = (bisect_left(self._totals, self._totals[-1] * tenths // 10) for tenths in (1, 9))
        self._middle = (self._times_s[first], self._times_s[last])

    def rate(self, spells: list[Spell]) -> float:
        """Targets/s in what of the spells lies in the middle, which must be some time."""
        first_s, last_s = self._middle
        within = [(max(began_s, first_s), min(end_s, last_s)) for began_s, end_s in spells]
        within = [(began_s, end_s) for began_s, end_s in within if began_s < end_s]
        lasted_s = sum(end_s - began_s for began_s, end_s in within)
        assert lasted_s >= SPELL_S - SETTLING_S
        return sum(map(self._between, within)) / lasted_s

    def _between(self, spell: Spell) -> int:
        before, after = (self._totals[bisect_left(self._times_s, at_s)] for at_s in spell)
        return after - before


@pytest.mark.timeout(400)
@pytest.mark.parametrize(
    ("capacity", "chunk", "targets"),
    [
        pytest.param(0, 1, 1_200_000, marks=pytest.mark.alone),
        pytest.param(0, 100, 10_000_000, marks=pytest.mark.alone),
        (2_000, 10, 25_000),
    ],
)
def test_a_slow_redis_costs_a_fifth_of_the_rate_at_most(
    capacity: int, chunk: int, targets: int, fresh_settings: Settings, tmp_path: Path
) -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    with redis_server.running() as server, serving([DelayingProxy(server.port, listener, {})]) as (proxy,):
        settings = on_redis(fresh_settings, f"redis://127.0.0.1:{proxy.port}/0")
        with PushClient.connect(settings) as client:
            client.set_capacity(capacity)
            task = PushTask(app="a", tier="high", channel="log", message={}, chunk=chunk, hold_until_sealed=True)
            handle = client.submit(task, (f"d-{number}" for number in range(targets)))
            with crew(settings, tmp_path, "w1") as members, alternating(proxy) as spells:
                assert handle.wait(120).targets.sent == targets
                sent = Deliveries([(at_s, count) for at_s, _, count in delivered_at_s(members)])
    prompt, late = sent.rate(spells.prompt), sent.rate(spells.late)
    print(f"prompt {prompt:.0f} late {late:.0f} {late / prompt:.3f}")
    assert late >= 0.8 * prompt
