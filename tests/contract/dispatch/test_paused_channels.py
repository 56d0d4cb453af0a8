"""The set of paused channels is what the settings say, in whatever order they are applied, and after a restore."""

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from quotas.snapshots import RedisSnapshots
from tests.contract.dispatch.test_snapshots import empty, snapshot_of
from tests.contract.ledger_worlds import LawWorld, Worlds
from tests.contract.registry_records import position, setting

CHANNELS = ("http", "push", "a:b|c")
changes = st.tuples(st.sampled_from(CHANNELS), st.booleans())


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(log=st.lists(changes, min_size=1, max_size=8), data=st.data())
def test_the_paused_channels_are_those_of_the_settings(
    worlds: Worlds, log: list[tuple[str, bool]], data: st.DataObject
) -> None:
    """Records in any order and more than once, a snapshot of any moment, and the records behind it."""
    world = worlds()
    restored_at = data.draw(st.integers(0, len(log)))
    before = data.draw(st.permutations(range(restored_at)))
    _apply(world, log, before)
    if data.draw(st.booleans()):
        dump, who = snapshot_of(world), empty(world)
        _apply(world, log, [data.draw(st.integers(0, len(log) - 1))])  # by a client, before the view is whole
        assert RedisSnapshots(world.view).restore_parts(who, dump)
    _check(world)
    from_place = data.draw(st.integers(0, restored_at))
    _apply(world, log, data.draw(st.permutations(range(from_place, len(log)))))
    _check(world)
    assert world.registry.service.read_state().paused == {channel for channel, paused in dict(log).items() if paused}


def _apply(world: LawWorld, log: list[tuple[str, bool]], places: list[int]) -> None:
    for place in places:
        channel, paused = log[place]
        world.registry.control.apply(position(place + 1), setting(f"channel_paused:{channel}", str(int(paused))))
        world.registry.control.apply(position(place + 1), setting(f"cap:channel:{channel}", "1"))


def _check(world: LawWorld) -> None:
    stored = world.view.command("HGETALL", world.view.keys.globals)
    fields = {field.decode() for field, text in stored.items() if text == b"1"}
    paused = {field.removeprefix("channel_paused:") for field in fields if field.startswith("channel_paused:")}
    assert world.registry.service.read_state().paused == paused


def test_what_the_watch_reads_each_second_does_not_grow_with_the_settings(real_worlds: Worlds) -> None:
    world = real_worlds()
    client = world.view.client
    client.hset(world.view.keys.globals, mapping={f"app_weight:a{number}": "2000" for number in range(2_000)})
    client.config_resetstat()
    world.registry.service.read_state()
    commands = client.info("commandstats")
    assert "cmdstat_smembers" in commands
    assert "cmdstat_hgetall" not in commands
