"""The gate of one worker closes a flow for as long as its trouble asks."""

import math

import pytest

from dispatcher.channels.guards.trouble import LocalGate, Trouble
from dispatcher.clock import VirtualClock
from dispatcher.model.flow_pause import PauseKind

FLOW = "fcm/shop"


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def gate(clock: VirtualClock) -> LocalGate:
    return LocalGate(clock)


def trouble(for_s: float, kind: PauseKind = PauseKind.LIMIT, credential: str = "v1") -> Trouble:
    return Trouble(channel="fcm", app="shop", kind=kind, for_s=for_s, reason="too fast", credential=credential)


def test_a_flow_is_closed_until_the_end_and_says_what_is_left(gate: LocalGate, clock: VirtualClock) -> None:
    gate.report(trouble(60.0))
    clock.advance(20.0)
    closed = gate.closed(FLOW)
    assert closed is not None
    assert (closed.for_s, closed.reason) == (40.0, "too fast")
    clock.advance(40.0)
    assert gate.closed(FLOW) is None


def test_other_flows_stay_open(gate: LocalGate) -> None:
    gate.report(trouble(60.0))
    assert gate.closed("fcm/news") is None
    assert gate.closed("apns/shop") is None


def test_a_shorter_trouble_does_not_end_a_longer_one(gate: LocalGate) -> None:
    gate.report(trouble(3_600.0, PauseKind.DOWN))
    gate.report(trouble(1.0))
    closed = gate.closed(FLOW)
    assert closed is not None
    assert closed.kind is PauseKind.DOWN


def test_no_flow_is_closed_for_ever(gate: LocalGate, clock: VirtualClock) -> None:
    gate.report(trouble(math.inf))
    assert gate.closed(FLOW) is not None
    clock.advance(61.0)
    assert gate.closed(FLOW) is None


@pytest.mark.parametrize(
    ("kind", "version", "is_closed"),
    [
        (PauseKind.CREDENTIALS, "v2", False),
        (PauseKind.CREDENTIALS, "v1", True),
        (PauseKind.LIMIT, "v2", True),
    ],
)
def test_new_credentials_end_a_pause_for_which_the_old_ones_were_to_blame(
    gate: LocalGate, kind: PauseKind, version: str, is_closed: bool
) -> None:
    gate.report(trouble(60.0, kind))
    gate.renewed(FLOW, version)
    assert (gate.closed(FLOW) is not None) is is_closed
