"""The requests of an app are counted by answer."""

from tests.unit.dispatch.consumers.push.rig import Rig, rigged


async def test_answers_are_counted_by_their_verdict(at: Rig) -> None:
    targets = at.targets(30)
    dead = {"fcm": (404, "UNREGISTERED"), "apns": (410, "Unregistered")}[at.name]
    at.rule(answers=[{"targets": target, "status": dead[0], "code": dead[1]} for target in targets[:5]])
    await at.deliver(targets)
    flow = at.figures.of(at.name, "shop", 1)
    assert (flow.requests, flow.under_way, dict(flow.answers)) == (30, 0, {"sent": 25, "dead": 5})
    assert sum(flow.times.counts) == 30


@rigged("fcm", timeout_s=1.5, request_timeout_s=0.5)
async def test_requests_without_an_answer_are_counted_and_none_stays_under_way(at: Rig) -> None:
    await at.deliver(at.targets(1))
    at.rule(latency_ms=[60_000, 60_000])
    await at.deliver(at.targets(20, 1))
    flow = at.figures.of("fcm", "shop", 1)
    assert flow.answers["unknown"] >= 1
    assert flow.under_way == 0
