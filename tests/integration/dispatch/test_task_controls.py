"""Tasks that are steered while real workers deliver them: each target ends in exactly one outcome, as was asked for."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from dispatcher.model.errors import TaskEnded
from fairlane.settings import Settings
from producers.client import PushClient
from tests.integration.provider import watched
from tests.integration.steered import BEHIND, assert_lane_gone, begun, counts, delivery_times, push
from tests.integration.worker_crew import Crew, audience, crew, eventually

pytestmark = pytest.mark.timeout(120)
OWN_CHANNEL = '''
from dispatcher.wire.outcome import Outcome, Report, RETRY, Verdict


class Choosy:
    """Takes what does not end in 3 (invalid) or in 5 (raises at the first attempt)."""

    timeout_s, concurrency, batch_limit = 5.0, 4, 10

    def __init__(self, settings):
        self.name, self.word = settings["name"], settings["word"]

    async def open(self):
        pass

    async def deliver(self, envelopes, tier):
        return [self.report(envelope) for envelope in envelopes]

    def report(self, envelope):
        invalid = Verdict(int(Outcome.INVALID), self.word)
        if envelope.attempt == 0:
            later = Verdict(RETRY, "later")
            return Report(exceptions={n: invalid if t[-1] == "3" else later
                                      for n, t in enumerate(envelope.targets) if t[-1] in "35"})
        return Report()

    async def close(self):
        pass


class Raising(Choosy):
    async def deliver(self, envelopes, tier):
        if any(envelope.attempt == 0 for envelope in envelopes):
            raise RuntimeError("oh no")
        return [Report() for _ in envelopes]


class Hopeless(Choosy):
    async def deliver(self, envelopes, tier):
        return [Report(Verdict(int(Outcome.FAILED), self.word)) for _ in envelopes]
'''
CONFIG = """
[worker.channels]
choosy = "push_channel:Choosy"
raising = "push_channel:Raising"
hopeless = "push_channel:Hopeless"
[channels.choosy]
word = "not a token"
[channels.raising]
word = ""
[channels.hopeless]
word = "no such credential"
"""


@pytest.fixture(scope="module")
def members(module_settings: Settings, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Crew]:
    folder = tmp_path_factory.mktemp("crew")
    (folder / "push_channel.py").write_text(OWN_CHANNEL)
    with crew(module_settings, folder, "w1", "w2", config=CONFIG) as here:
        yield here


@pytest.mark.parametrize("tier", ["high", "low"])
@pytest.mark.parametrize(("state", "reason"), [("cancelled", ""), ("failed", "the credential is revoked")])
def test_a_task_that_is_cancelled_or_stopped_for_a_reason_ends_at_once_and_its_counts_add_up(
    push_client: PushClient, members: Crew, module_settings: Settings, state: str, reason: str, tier: str
) -> None:
    """high: a lane of its own; low and small: a shared lane, in which others go on."""
    push_client.set_capacity(30)
    expected = 1_000
    others = [push_client.submit(push(tier=tier), audience(50, f"other{n}")) for n in range(3)]
    handle = push_client.submit(push(tier=tier), audience(expected, state))
    assert handle.progress().shared == (tier == "low")
    begun(handle)
    if reason:
        handle.stop(reason)
    else:
        handle.cancel()
    assert handle.progress().reason == reason
    push_client.set_capacity(0)
    view, looks = watched(handle, 30)
    assert {look.state for look in looks} == {state}
    assert view.reason == reason
    total, sent, expired, cancelled = counts(view)
    assert (total, expired) == (expected, 0)
    assert sent + cancelled == expected
    assert cancelled > 0
    assert members.targets(handle.id).total() == sent
    assert max(members.targets(handle.id).values()) == 1
    for other in others:
        assert counts(watched(other, 30)[0]) == (50, 50, 0, 0)
    if tier == "high":
        assert_lane_gone(module_settings, view.lane)


def test_a_task_of_which_nothing_could_be_sent_fails(push_client: PushClient) -> None:
    handle = push_client.submit(push(channel="hopeless", max_attempts=1), audience(3))
    view = handle.wait(30)
    assert (view.state, view.targets.failed) == ("failed", 3)
    assert view.reason.startswith("nothing was sent: 3 targets failed")


@pytest.mark.parametrize("tier", ["high", "low"])
def test_what_is_not_sent_within_its_ttl_expires(
    push_client: PushClient, members: Crew, module_settings: Settings, tier: str
) -> None:
    push_client.set_capacity(50)
    handle = push_client.submit(push(tier=tier, ttl_s=2), audience(1_000))
    view, _ = watched(handle, 30)
    total, sent, expired, cancelled = counts(view)
    assert (view.state, total, cancelled, sent + expired) == ("expired", 1_000, 0, 1_000)
    assert expired > 0
    assert members.targets(handle.id).total() == sent
    end = datetime.fromtimestamp(view.expires_ms / 1000, UTC) + BEHIND
    assert all(at <= end for at in delivery_times(members, handle))
    if tier == "high":
        assert_lane_gone(module_settings, view.lane)


def test_a_paused_task_expires_too(push_client: PushClient, members: Crew) -> None:
    push_client.set_capacity(50)
    handle = push_client.submit(push(ttl_s=8), audience(500))
    handle.pause()
    view, looks = watched(handle, 30)
    assert looks[0].state == "paused"
    assert view.state == "expired"
    assert view.targets.expired == 500 - members.targets(handle.id).total()


def test_a_paused_task_sends_nothing_and_goes_on_when_resumed(push_client: PushClient, members: Crew) -> None:
    push_client.set_capacity(30)
    paused = push_client.submit(push(), audience(600, "paused"))
    begun(paused)
    paused.pause()
    assert push_client.follow_cancelled([paused.id], 20).settled
    push_client.set_capacity(200)
    first = push_client.submit(push(), audience(150, "first"))
    watched(first, 20)
    standing = members.targets(paused.id).total()
    second = push_client.submit(push(), audience(300, "second"))
    watched(second, 20)
    assert members.targets(paused.id).total() == standing < 600
    assert paused.progress().state == "paused"
    push_client.set_capacity(0)
    paused.resume()
    members.check_sent_once(paused, audience(600, "paused"), 20)


@pytest.mark.parametrize("tier", ["medium", "low"])
def test_a_start_time_is_waited_for(push_client: PushClient, members: Crew, tier: str) -> None:
    start_at = datetime.now(UTC) + timedelta(seconds=6)
    handle = push_client.submit(push(tier=tier, start_at=start_at), audience(20))
    view, looks = watched(handle, 30)
    assert looks[0].state == "scheduled"
    assert (view.state, view.targets.sent) == ("completed", 20)
    assert delivery_times(members, handle)[0] >= start_at - timedelta(milliseconds=1)


@pytest.mark.parametrize("hold", [True, False])
def test_sending_begins_before_the_seal_unless_the_task_is_held(
    push_client: PushClient, members: Crew, hold: bool
) -> None:
    seen: list[int] = []
    task = push(id=f"held-{hold}", hold_until_sealed=hold)

    def targets() -> Iterator[str]:
        names = audience(1_000)
        yield from names[:500]
        if not hold:
            begun(push_client.task(f"held-{hold}"))
        watched(push_client.submit(push(), ["other"]), 20)
        seen.append(members.targets(f"held-{hold}").total())
        yield from names[500:]

    handle = push_client.submit(task, targets())
    assert (seen == [0]) == hold
    members.check_sent_once(handle, audience(1_000), 30)


def test_a_cap_holds_while_it_is_set(push_client: PushClient, members: Crew) -> None:
    push_client.set_capacity(400)  # else it may have ended before it has a cap
    handle = push_client.submit(push(), audience(4_000))
    handle.set_cap(100)
    shown_by = datetime.now(UTC) + timedelta(seconds=2)  # a change shows in what workers send within that time
    capped = push_client.submit(push(cap=50), audience(200, "capped"))
    watched(capped, 20)
    lifted_at = datetime.now(UTC)
    handle.set_cap(None)
    push_client.set_capacity(0)
    assert watched(handle, 30)[0].targets.sent == 4_000
    within = [at for at in delivery_times(members, handle) if shown_by <= at < lifted_at]
    assert len(within) <= 100 * (lifted_at - shown_by + BEHIND).total_seconds() + 100 / 4 + 1
    times = delivery_times(members, capped)
    assert times[-1] - times[0] + BEHIND >= timedelta(seconds=(200 - 50 / 4 - 1) / 50)


def test_a_task_in_another_tier_is_delivered_as_of_that_tier(push_client: PushClient, members: Crew) -> None:
    push_client.set_capacity(1)
    handle = push_client.submit(push(tier="low", expected_targets=6_000, hold_until_sealed=True), audience(20))
    handle.set_tier("high")
    push_client.set_capacity(0)
    assert watched(handle, 20)[0].tier == "high"
    assert push_client.task(handle.id).progress().weight == 1.0


def test_a_channel_of_ones_own_gives_its_own_verdicts(push_client: PushClient) -> None:
    handle = push_client.submit(push(channel="choosy", chunk=7), audience(40))
    view, _ = watched(handle, 30)
    assert (view.state, view.targets.sent, view.targets.invalid) == ("completed", 36, 4)
    found = {(failure.target[-1], failure.outcome, failure.reason) for failure in handle.failures()}
    assert found == {("3", "invalid", "not a token")}


def test_what_a_channel_raises_is_a_reason_to_try_again(push_client: PushClient) -> None:
    handle = push_client.submit(push(channel="raising", chunk=10), audience(40))
    assert watched(handle, 30)[0].targets.sent == 40
    once = push_client.submit(push(channel="raising", chunk=10, max_attempts=1), audience(20))
    assert watched(once, 30)[0].targets.failed == 20
    assert {failure.reason for failure in once.failures()} == {"gave up after 1 attempt; the last: RuntimeError: oh no"}


def test_an_empty_task_completes(push_client: PushClient) -> None:
    for tier in ("high", "low"):
        view, _ = watched(push_client.submit(push(tier=tier), [], allow_empty=True), 20)
        assert (view.state, view.targets.total) == ("completed", 0)


@pytest.mark.parametrize("total", [500, 3])
def test_a_submission_that_broke_off_and_is_cancelled_ends_cancelled_and_unsealed(
    push_client: PushClient, total: int
) -> None:
    """Everything that came was sent before the cancel, so no target is cancelled."""

    def broken() -> Iterator[str]:
        yield from audience(total, f"half-{total}")
        if total > 100:
            eventually(lambda: push_client.task(f"half-{total}").progress().targets.sent == total, 30, "all are sent")
        raise ConnectionError("the cursor is gone")

    with pytest.raises(ConnectionError):
        push_client.submit(push(id=f"half-{total}"), broken())
    handle = push_client.task(f"half-{total}")
    handle.cancel()
    view = handle.wait(timeout_s=30)
    assert (view.state, view.sealed) == ("cancelled", False)
    assert view.targets.pending == 0
    with pytest.raises(TaskEnded, match="cancelled"):
        push_client.submit(push(id=f"half-{total}"), audience(total, f"half-{total}"))
