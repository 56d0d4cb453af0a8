"""The requests of an app are counted by answer, and fewer are under way while its provider answers slowly."""

from pathlib import Path

from tests.unit.consumers.push.rig import BOTH, rig, run

STREAMS = 20


@BOTH
def test_answers_are_counted_by_their_verdict(name: str, tmp_path: Path) -> None:
    async def main() -> None:
        async with rig(name, tmp_path) as at:
            targets = at.targets(30)
            dead = {"fcm": (404, "UNREGISTERED"), "apns": (410, "Unregistered")}[name]
            at.rule(answers=[{"targets": target, "status": dead[0], "code": dead[1]} for target in targets[:5]])
            await at.deliver(targets)
            flow = at.figures.of(name, "shop", 1)
            assert (flow.requests, flow.under_way, dict(flow.answers)) == (30, 0, {"sent": 25, "dead": 5})
            assert sum(flow.times.counts) == 30

    run(main())


def test_requests_without_an_answer_are_counted_and_none_stays_under_way(tmp_path: Path) -> None:
    async def main() -> None:
        async with rig("fcm", tmp_path, timeout_s=1.5, request_timeout_s=0.5) as at:
            await at.deliver(at.targets(1))
            at.rule(latency_ms=[60_000, 60_000])
            await at.deliver(at.targets(20, 1))
            flow = at.figures.of("fcm", "shop", 1)
            assert flow.answers["unknown"] >= 1
            assert flow.under_way == 0

    run(main())


def test_fewer_requests_are_under_way_while_a_provider_answers_slowly(tmp_path: Path) -> None:
    async def main() -> None:
        limits = {"connections": 1, "streams": STREAMS}
        async with rig("fcm", tmp_path, app_settings=limits, concurrency=2, timeout_s=20.0) as at:
            flow = at.figures.of("fcm", "shop", 1)
            at.rule(latency_ms=[40, 60])
            await at.deliver(at.targets(800))
            assert flow.limit.limit == STREAMS
            at.rule(latency_ms=[700, 800])
            await at.deliver(at.targets(100, 800))
            assert 1 <= flow.limit.limit < STREAMS
            assert at.accepted(at.targets(900)) == [1] * 900

    run(main())
