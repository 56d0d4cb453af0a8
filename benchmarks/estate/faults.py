"""Faults of an estate beside publishing lanes: how long a lane pauses, and what it lost or has twice afterwards.

All lanes are on one broker, so that each of them meets a fault of it. The client looks them up at the other broker, as
behind a load balancer that leaves out what is dead. Copies and settings are those that `provision` and the plan
recommend: two copies on two of three bookies.
"""

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass

from backends.addresses import Address
from benchmarks.estate.servers import EstateServers, rehearsal
from benchmarks.estate.steady_lanes import SteadyLanes, steady_lanes
from dispatcher.model.errors import FairlaneError
from estate.facts.bundles import BundleAdmin
from fairlane.settings import Settings
from lab.isolation import environment, isolated, provisioned
from lab.stack.estate.shape import EstateShape
from lab.stack.ports import HOST

LANES = 32
GOES_ON_WITHIN_S = 90.0
"""A lane that has no receipt for this long counts as stopped for good."""
SERVED, OTHER = "broker-2", "broker-1"
"""The broker that all lanes are on, and the other one."""
BOOKIE = "bookie-2"
MANY_BROKERS, LOOKS = 3, 20
"""Looks at the load of this number of brokers."""


@dataclass(frozen=True)
class TestBed:
    """An estate with a tenant whose lanes are published to."""

    estate: EstateServers
    settings: Settings
    lanes: SteadyLanes

    def owned_by(self, broker: str) -> list[str]:
        """Return the bundles of the tenant that a broker owns."""
        with BundleAdmin(self.settings.pulsar) as admin:
            answers = {answer.broker: answer.owned for answer in admin.read()}
        own = f"{self.settings.pulsar.tenant}/"
        return [bundle for bundle in answers[self.estate.broker_web(broker)] if bundle.startswith(own)]

    def drain(self, broker: str) -> dict[str, float]:
        """Drain a broker as an operator does. Return the moves, and what is left behind."""
        command = [sys.executable, "-m", "fairlane", "estate", "drain", self.estate.broker_web(broker), "-o", "json"]
        began_s = time.monotonic()
        done = subprocess.run(command, env=environment(self.settings), capture_output=True, text=True, check=False)
        if not done.stdout:
            raise FairlaneError(f"The drain failed: {done.stderr.strip()}")
        moves = json.loads(done.stdout)["moves"]
        return {
            "moves": len(moves),
            "tries": sum(move["tries"] for move in moves),
            "left_behind": len(self.owned_by(broker)),
            "took_s": time.monotonic() - began_s,
        }


def _killed(name: str) -> Callable[[TestBed], AbstractContextManager[Mapping[str, float]]]:
    def act(scene: TestBed) -> AbstractContextManager[Mapping[str, float]]:
        scene.estate.kill(name)
        return nullcontext({})

    return act


@contextmanager
def _stopped(scene: TestBed) -> Iterator[Mapping[str, float]]:
    with scene.estate.paused(BOOKIE):
        yield {}


def _drained(scene: TestBed) -> AbstractContextManager[Mapping[str, float]]:
    return nullcontext(scene.drain(SERVED))


@dataclass(frozen=True)
class Fault:
    """One row of the table."""

    act: Callable[[TestBed], AbstractContextManager[Mapping[str, float]]]
    """Makes the fault and yields further figures; when the context ends, a fault that passes is over."""
    lasts_s: float
    """Time that is looked at. A bookie that is stopped for more than 25 s ends itself."""


FAULTS = {
    "bookie-killed": Fault(_killed(BOOKIE), 10.0),
    "bookie-stopped": Fault(_stopped, 15.0),
    "broker-killed": Fault(_killed(SERVED), 15.0),
    "broker-drained": Fault(_drained, 1.0),
}


def _beside_lanes(estate: EstateServers, settings: Settings, name: str, seed: int) -> dict[str, float]:
    """Make one fault beside lanes of a new tenant; return its figures. The estate is whole again afterwards."""
    fault = FAULTS[name]
    own = isolated(settings, f"faults-{name}-{seed}", namespaces=8)
    address = Address(f"pulsar://{HOST}:{estate.ports.of(OTHER)['broker']}", "of the broker that stays")
    own = own.model_copy(update={"pulsar": own.pulsar.model_copy(update={"url": address})})
    with provisioned(own), steady_lanes(own.pulsar, LANES, GOES_ON_WITHIN_S) as lanes:
        scene = TestBed(estate, own, lanes)
        scene.drain(OTHER)
        scene.lanes.wait_for_all(GOES_ON_WITHIN_S)
        with scene.lanes.longest_pause(GOES_ON_WITHIN_S) as pause, fault.act(scene) as more:
            time.sleep(fault.lasts_s)
        in_flight = scene.lanes.most_in_flight
        stored = scene.lanes.stored()
        estate.repair()
    return {
        "longest_pause_s": pause.seconds,
        "median_pause_s": pause.median_s,
        "lost": stored.lost,
        "twice": stored.twice,
        "most_in_flight": in_flight,
        **more,
    }


def _loads(estate: EstateServers, settings: Settings) -> dict[str, float]:
    """Add brokers if there are fewer; return the times of looks at the load and the bundles of all of them."""
    bookies = estate.estate().shape.bookies
    estate.start_missing(EstateShape(bookies=bookies, brokers=MANY_BROKERS))
    with BundleAdmin(settings.pulsar) as admin:
        times = [_timed(admin) for _ in range(LOOKS)]
    return {"brokers": MANY_BROKERS, "median_ms": statistics.median(times), "longest_ms": max(times)}


def _timed(admin: BundleAdmin) -> float:
    began_s = time.monotonic()
    answers = admin.read()
    took_ms = (time.monotonic() - began_s) * 1000
    if len(answers) != MANY_BROKERS or any(answer.failure or answer.cpu is None for answer in answers):
        raise FairlaneError(f"Not all brokers told their load: {[answer.failure for answer in answers]}.")
    return took_ms


def run(settings: Settings, names: Sequence[str], seed: int, say: Callable[[str], None]) -> dict[str, float]:
    """Return the figures of these faults, in the order given."""
    figures: dict[str, float] = {}
    with rehearsal(settings) as (estate, here):
        for name in names:
            fault = _beside_lanes(estate, here, name, seed) if name in FAULTS else _loads(estate, here)
            say(f"{name}: " + ", ".join(f"{key} {value:.3g}" for key, value in fault.items()))
            figures |= {f"{name} {key}": value for key, value in fault.items()}
    return figures
