"""Fewer requests of an app are under way while its provider answers slowly: the channel `fcm` in virtual time."""

from tests.unit.push_world import push_world

STREAMS = 20
TARGETS = 5_000


def test_fewer_requests_are_under_way_while_a_provider_answers_slowly() -> None:
    with push_world(workers=1, connections=1, streams=STREAMS) as world:
        world.add_task("t", TARGETS, chunk=100, channel="fcm")
        world.run(lambda: len(world.fcm.accepted) >= 1_500, within_s=30.0)
        assert world.fcm.under_way == STREAMS
        world.fcm.silent_s = 1.0
        world.run(within_s=10.0)
        assert 1 <= world.fcm.under_way <= STREAMS / 2
        world.fcm.silent_s = 0.0
        world.run_out("t", within_s=120.0)
        assert world.counts("t") == {"sent": TARGETS}
        assert set(world.fcm.requests.values()) == {1}
