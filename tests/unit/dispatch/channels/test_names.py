"""A channel is named, never assumed: what is said where a task has none, or has one that sends nothing."""

import pytest

from consumers.delivery.channel_registry import BUILT_IN
from dispatcher.channels.names import NO_CHANNEL, sends_nothing
from dispatcher.model.errors import InvalidInput
from dispatcher.model.task import PushTask


def test_a_task_without_a_channel_is_refused_with_all_built_in_channels() -> None:
    with pytest.raises(InvalidInput, match=r"^task: channel: is missing; name ") as error:
        PushTask.model_validate({"app": "shop", "tier": "high", "message": "Hi"})
    assert NO_CHANNEL in str(error.value)
    assert all(name in NO_CHANNEL for name in BUILT_IN)


@pytest.mark.parametrize("channel", BUILT_IN)
def test_only_channels_for_trials_send_nothing(channel: str) -> None:
    assert bool(sends_nothing(channel)) == (channel in ("null", "log"))
