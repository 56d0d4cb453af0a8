"""A courier with the channel `fcm` or `apns`, and fakes of the provider over TLS."""

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from backends.system_clock import SystemClock
from consumers.delivery.channel_registry import ChannelContext, load_channels
from consumers.delivery.courier import ChannelCourier
from consumers.delivery.fleet_gate import FleetGate
from consumers.delivery.flow_figures import FlowTable
from consumers.delivery.push.check import CheckResult, check_app
from dispatcher.channels.guards.trouble import MessageRefusal, Trouble
from dispatcher.channels.verdict_table import Effect, Row
from dispatcher.model.errors import FairlaneError
from dispatcher.model.flow_pause import PauseKind
from dispatcher.ports import Batch
from dispatcher.wire.envelope import Envelope, encode_message
from dispatcher.wire.outcome import UNKNOWN, Outcome, Report, Verdict
from fairlane.worker.process.threads import Threads
from lab.fake.certificates import make_tls_files
from lab.fake.making import KEY_ID, STREAMS, TEAM_ID, FcmFake, make_apns, make_fcm
from lab.fake.rules import read_rules
from lab.fake.server import serving
from lab.fake.site import FakeSite
from tests.unit.dispatch.consumers.envelopes import batch, envelope
from tests.unit.lab.fake.playing import TOPIC, apns_target, fcm_target

TARGETS = {"fcm": fcm_target, "apns": apns_target}


def rigged(*names: str, **settings: Any) -> pytest.MarkDecorator:
    """Run a test with the rigs of these providers (default: each), set up so."""
    rigs = [pytest.param((name, settings), id=name) for name in names or TARGETS]
    return pytest.mark.parametrize("at", rigs, indirect=True)


class RecordingGate(FleetGate):
    """Remembers what was reported."""

    def __init__(self) -> None:
        super().__init__(SystemClock())
        self.troubles: list[Trouble] = []
        self.rows: list[Row] = []
        self.versions: list[str] = []
        self.trusts = True
        self.is_probing = False
        self.closes_on: Effect | None = None

    def report(self, trouble: Trouble) -> None:
        self.troubles.append(trouble)
        super().report(trouble)

    def answered(self, flow: str, row: Row) -> bool:
        self.rows.append(row)
        if row.effect is self.closes_on:
            channel, app = flow.split("/")
            self.report(Trouble(channel=channel, app=app, kind=PauseKind.DOWN, for_s=60.0, reason="down"))
        elif row.effect is Effect.SENT:
            self.is_probing = False
        return self.trusts or not row.guarded

    def probing(self, flow: str) -> bool:
        return self.is_probing

    def renewed(self, flow: str, credential: str) -> None:
        self.versions.append(credential)
        super().renewed(flow, credential)

    def open_all(self) -> None:
        self._local.clear()
        self.troubles.clear()


@dataclass
class Rig:
    """The courier and the fakes, by app."""

    name: str
    folder: Path
    courier: ChannelCourier
    loop: asyncio.AbstractEventLoop
    """That of the channels."""
    gate: RecordingGate
    sites: dict[str, FakeSite]
    accounts: dict[str, FcmFake] = field(default_factory=dict)
    settings: dict[str, dict[str, Any]] = field(default_factory=dict)
    figures: FlowTable = field(default_factory=FlowTable)
    refusals: list[MessageRefusal] = field(default_factory=list)
    """Messages that are refused for everybody."""

    @property
    def site(self) -> FakeSite:
        return self.sites["shop"]

    def rule(self, app: str = "shop", **rules: Any) -> None:
        site = self.sites[app]
        site.set_rules(read_rules(rules, site.provider.table))

    def stall(self, seconds: float) -> None:
        """Stop the channels' event loop for a while."""
        self.loop.call_soon_threadsafe(time.sleep, seconds)

    def targets(self, count: int, first: int = 0) -> list[str]:
        return [TARGETS[self.name](number) for number in range(first, first + count)]

    def accepted(self, targets: Sequence[str], app: str = "shop") -> list[int]:
        """Return how often the fake accepted each target."""
        return [self.sites[app].accounts.accepted[target] for target in targets]

    def judge(self, targets: Sequence[str], given: Sequence[int | None]) -> None:
        """Check that what the codes say about targets is what the fake knows of them."""
        for target, code, times in zip(targets, given, self.accepted(targets), strict=True):
            allowed = {1} if code == Outcome.SENT else {0, 1} if code == UNKNOWN else {0}
            assert times in allowed, (target, code)

    async def send(self, envelopes: Sequence[Envelope], app: str = "shop") -> list[Report | None]:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[list[Report | None]] = loop.create_future()

        def sent(_: Batch, reports: Sequence[Report | None]) -> None:
            loop.call_soon_threadsafe(future.set_result, list(reports))

        one = batch(envelopes, channel=self.name, use_by_s=float("inf"))
        one.flow = self.courier.flow(self.name, app)
        self.courier.send(one, sent)
        return await future

    async def deliver(self, targets: Sequence[str], app: str = "shop", **fields: Any) -> list[Verdict | None]:
        """Send one envelope; return the verdict on each target, None if the envelope was given back."""
        message = fields.pop("message", {"title": "hello"})
        one = envelope(0, targets, app=app, channel=self.name, message=encode_message(message), **fields)
        [report] = await self.send([one], app)
        if report is None:
            return [None] * len(targets)
        exceptions = report.exceptions or {}
        return [exceptions.get(index, report.verdict) for index in range(len(targets))]


def codes(verdicts: Sequence[Verdict | None]) -> list[int | None]:
    return [None if verdict is None else verdict.code for verdict in verdicts]


async def deliver_until(at: Rig, condition: Callable[[], bool]) -> list[int | None]:
    """Deliver a target at a time until the condition holds; return the codes."""
    given: list[int | None] = []
    for number in count(1_000):
        given += codes(await at.deliver(at.targets(1, first=number)))
        if condition():
            return given
        await asyncio.sleep(0.01)
    raise AssertionError


async def check(at: Rig, target: str | None = None, **changes: Any) -> CheckResult:
    """Check the app as a command does, with changed settings."""
    return await check_app(at.name, {"apps": {"shop": {**at.settings["shop"], **changes}}}, "shop", target)


async def failure(at: Rig, target: str | None = None, **changes: Any) -> FairlaneError:
    with pytest.raises(FairlaneError) as caught:
        await check(at, target, **changes)
    return caught.value


@asynccontextmanager
async def rig(
    name: str,
    folder: Path,
    apps: Sequence[str] = ("shop",),
    app_settings: dict[str, Any] | None = None,
    other_apps: dict[str, dict[str, Any]] | None = None,
    **channel: Any,
) -> AsyncIterator[Rig]:
    """Run a fake for each app, and a courier whose apps are set up for them. `other_apps`: settings of further ones."""
    sites: dict[str, FakeSite] = {}
    accounts: dict[str, FcmFake] = {}
    settings: dict[str, dict[str, Any]] = {}
    async with AsyncExitStack() as stack:
        for app in apps:
            place = folder / app
            place.mkdir(exist_ok=True)
            if name == "fcm":
                accounts[app] = make_fcm("demo")
                provider: Any = accounts[app].provider
                own: dict[str, Any] = {"credentials": f"file:{place / 'account.json'}"}
            else:
                provider = make_apns(TOPIC, place / "key.p8")
                own = {
                    "credentials": f"file:{place / 'key.p8'}",
                    "key_id": KEY_ID,
                    "team_id": TEAM_ID,
                    "topic": TOPIC,
                }
            sites[app] = FakeSite(provider, read_rules({}, provider.table), streams=STREAMS[name], seed=7)
            files = make_tls_files(place, "127.0.0.1", asks=name == "apns")
            url = f"https://127.0.0.1:{await stack.enter_async_context(serving(sites[app], files))}"
            if name == "fcm":
                accounts[app].write_account(place / "account.json", url)
            settings[app] = {**own, "url": url, "ca_file": str(files.authority), **(app_settings or {})}
        gate = RecordingGate()
        clock = SystemClock()
        values = {"timeout_s": 5.0, "request_timeout_s": 2.0, **channel, "apps": settings | (other_apps or {})}
        refusals: list[MessageRefusal] = []
        figures = FlowTable()
        context = ChannelContext(clock, gate, refusals.append, figures)
        channels = load_channels({name: name}, {name: values}, context)
        loop = asyncio.new_event_loop()
        courier = ChannelCourier(channels, clock, loop)
        await asyncio.to_thread(courier.start, Threads(threading.Event()).start)
        try:
            yield Rig(
                name=name,
                folder=folder,
                courier=courier,
                loop=loop,
                gate=gate,
                sites=sites,
                accounts=accounts,
                settings=settings,
                figures=figures,
                refusals=refusals,
            )
        finally:
            await asyncio.to_thread(courier.stop, 5.0)
