"""An engine's world whose workers send through the channel `fcm`, to an FCM in memory, all of it in virtual time."""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, cast

import msgspec
import pytest

from consumers.delivery.channel_registry import ChannelContext
from consumers.delivery.courier import ChannelCourier
from consumers.delivery.fleet_gate import FleetGate
from consumers.delivery.flow_figures import FlowTable
from consumers.delivery.http2.curl_client import CurlClient
from consumers.delivery.http2.port import HttpRequest, HttpResponse
from consumers.delivery.push import channel
from consumers.delivery.push.channel import PushChannel
from consumers.delivery.push.connections import Connections
from consumers.delivery.push.credentials import Credential
from consumers.delivery.push.fcm import FcmProvider
from consumers.delivery.push.provider import Authorization
from consumers.upkeep.flow_pauses import FlowPauses
from dispatcher.model.flow_pause import FLOW_PAUSED, FlowPause, PauseKind
from dispatcher.model.service_settings import Setting
from fairlane.settings import Settings
from fairlane.worker.worker import engine_settings
from tests.unit.engine_world import EngineWorld, Worker
from tests.unit.virtual_loop import VirtualLoop

APP, FLOW = "app", "fcm/app"
LATENCY_S = 0.05
WATCHED_EVERY_S = 1.0
"""How often a worker looks at the pauses of the fleet."""
Trouble = Callable[[], HttpResponse]
"""Gives the answer to a request during an outage, or raises RequestFailed."""


def answer(status: int, body: object = None, *headers: bytes) -> HttpResponse:
    return HttpResponse(status=status, body=msgspec.json.encode(body or {}), lines=(b"HTTP/2 %d" % status, *headers))


class MemoryFcm:
    """Accepts every message, but for its outage. Implements HttpClient."""

    def __init__(self) -> None:
        self.accepted: Counter[str] = Counter()
        self.requests: Counter[str] = Counter()
        self.arrived_s: list[float] = []
        """When requests came, in order."""
        self.trouble: Trouble | None = None
        self.silent_s = 0.0
        """How long a request in trouble takes longer."""
        self.in_trouble: str = ""
        """Beginning of the targets that the trouble concerns."""
        self.under_way = 0

    async def send(self, request: HttpRequest) -> HttpResponse:
        target = msgspec.json.decode(request.body)["message"]["token"]
        self.requests[target] += 1
        self.arrived_s.append(asyncio.get_running_loop().time())
        self.under_way += 1
        try:
            await asyncio.sleep(LATENCY_S + self.silent_s)
        finally:
            self.under_way -= 1
        if self.trouble is not None and target.startswith(self.in_trouble):
            return self.trouble()
        self.accepted[target] += 1
        return answer(200, {"name": f"projects/demo/messages/{target}"})

    def renew_connections(self) -> None:
        """Do nothing: there are none."""

    async def close(self) -> None:
        """Do nothing."""


class _Fcm(FcmProvider):
    """Knows its access token."""

    def authorize(self, credential: Credential, wall_s: float) -> Authorization:
        return Authorization(
            url="https://fcm.test/v1/projects/demo/messages:send",
            headers=(("authorization", "Bearer token"),),
            version=credential.version,
            from_s=wall_s - 1.0,
            renew_s=wall_s + 3_000.0,
            ends_s=wall_s + 3_600.0,
        )


class PushWorker(Worker):
    """A worker with the channel, its gate, and what writes and reads the pauses of the fleet."""

    def __init__(self, world: "PushWorld", name: str, app_settings: Mapping[str, Any]) -> None:
        clock = world.clock
        app = {"credentials": "env:PUSH_WORLD_KEY", **app_settings}
        self.loop, self.gate = VirtualLoop(clock), FleetGate(clock)
        push = PushChannel({"name": "fcm", "apps": {APP: app}}, _Fcm)
        push.use(ChannelContext(clock, self.gate, figures=FlowTable()))
        courier = ChannelCourier({"fcm": push}, clock, self.loop, self.gate)
        self.loop.run_until_complete(push.open())
        settings = vars(engine_settings(name, Settings(), courier))
        own = {field: value for field, value in settings.items() if field != "worker"}
        super().__init__(world, name, courier=courier, gate=self.gate, **own)
        self._pauses = FlowPauses(
            world.registry.service,
            world.registry.control,
            world.control,
            clock,
            self.gate.outbox,
            world.ledger.slow_flow,
        )
        self._watched_s = -1.0

    def work(self) -> float:
        wait_s = super().work()
        self.loop.run_due()
        while not self.inbox.empty():
            wait_s = super().work()
            self.loop.run_due()
        self._pauses.round()
        return min(wait_s, self.loop.wait_s, self._watch())

    def close(self) -> None:
        """End what still runs in the loop."""
        for task in asyncio.all_tasks(self.loop):
            task.cancel()
        self.loop.run_due()
        self.loop.close()

    def _watch(self) -> float:
        """Look at the pauses. Return the seconds until the next time."""
        world, now_s = self.world, self.world.clock.monotonic_s()
        if now_s >= self._watched_s + WATCHED_EVERY_S:
            self._watched_s = now_s
            state = world.registry.service.read_state()
            self.gate.update(state.flows, state.now_ms)
        return self._watched_s + WATCHED_EVERY_S - now_s


@contextmanager
def push_world(workers: int = 2, **app_settings: Any) -> Iterator["PushWorld"]:
    """A world with workers that send through the channel `fcm`, with these settings of the app."""
    world = PushWorld()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PUSH_WORLD_KEY", "key")
        client = cast("CurlClient", world.fcm)
        patch.setattr(channel, "make_connections", lambda *_: Connections([client], first_alone=False))
        made = [PushWorker(world, f"w{number}", app_settings) for number in range(workers)]
        world.workers += made
        yield world
        for worker in made:
            worker.close()


class PushWorld(EngineWorld):
    """A world with the channel `fcm`."""

    target_form = "{task}-device-token-{number:012d}"
    housekeeping_s = 2.0

    def __init__(self, **world: Any) -> None:
        super().__init__(**world)
        self.fcm = MemoryFcm()

    def pause(self, kind: PauseKind) -> None:
        """Pause or reopen the flow by hand."""
        entry = FlowPause(kind=kind, since_ms=self.clock.wall_ms(), reason="by a test")
        self.write(Setting(FLOW_PAUSED, entry, FLOW).record(entry.since_ms))

    def most_tries(self) -> int:
        """Return the most tries of any target that was not the last one."""
        return max(
            (group.tries for record in self.records() for one in record.mixed for group in one.groups), default=0
        )
