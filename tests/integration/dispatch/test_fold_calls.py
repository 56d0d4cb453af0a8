"""Under mixed outcomes no call of the fold does more than it may, on real servers."""

from pathlib import Path

from benchmarks import mixed_channel
from benchmarks.script_calls import recording
from dispatcher.fold_cost import CALL_COMMANDS, CALL_COST
from fairlane import PushClient, PushTask, Settings
from tests.integration.worker_crew import audience, crew

CHANNELS = f'[worker.channels]\n{mixed_channel.NAME} = "{mixed_channel.__name__}:MixedChannel"\n'
SIZES = {500: 200_000, 20: 40_000, 1: 10_000}
"""Targets by targets per envelope."""


def test_no_call_folds_more_than_the_stated_number_of_envelopes_and_commands(
    fresh_settings: Settings, tmp_path: Path
) -> None:
    with PushClient.connect(fresh_settings) as client, recording(fresh_settings.redis) as found:
        handles = [
            client.submit(
                PushTask(app="a", tier="high", channel=mixed_channel.NAME, message="hi", chunk=chunk),
                audience(count),
            )
            for chunk, count in SIZES.items()
        ]
        with crew(fresh_settings, tmp_path, "w1", config=CHANNELS):
            counts = [handle.wait(60).targets for handle in handles]
    assert [done.sent + done.invalid for done in counts] == list(SIZES.values())
    assert all(0 < done.invalid < 0.2 * done.total for done in counts)

    folds = found.of("fold")
    one_by_one, in_runs = zip(*(call.envelopes() for call in folds), strict=True)
    assert sum(one_by_one) > 5_000
    assert 0 < max(one_by_one) <= CALL_COST
    assert max(in_runs) <= 5 * CALL_COST
    assert 0 < max(call.commands for call in folds) <= CALL_COMMANDS
