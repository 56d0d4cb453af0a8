"""A submitting process is killed; submitting again completes the task."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import pulsar
import pytest

from backends.redis.registry.registry import Registry
from backends.redis.view import open_view
from dispatcher.model.errors import AudienceMismatch
from dispatcher.wire.topics import Topics
from fairlane.settings import Settings
from producers.client import PushClient
from tests.integration.pulsar_helpers import envelopes_in
from tests.integration.submitting import TARGETS, audience, push

SCRIPT = Path(__file__).parents[1] / "submitting.py"


@pytest.mark.parametrize("when", ["checkpoint", "more", "end"])
def test_a_killed_submission_is_completed_and_repeats_only_what_followed_its_last_checkpoint(
    fresh_settings: Settings, client: pulsar.Client, names: Topics, when: str
) -> None:
    killed(fresh_settings, when)
    view = open_view(fresh_settings.redis)
    known = Registry(view).submissions.submission("t")
    view.close()
    assert known is not None
    assert known.checkpoint is not None
    point = known.checkpoint
    stored = len(envelopes_in(client, names.own_lane("t")))
    assert stored >= point.sequence > 0
    with PushClient.connect(fresh_settings) as push_client:
        with pytest.raises(AudienceMismatch):
            push_client.submit(push("t"), (target.upper() for target in audience()))
        handle = push_client.submit(push("t"), audience())
        assert handle.result is not None
        assert (handle.result.accepted, handle.result.resumed_from) == (TARGETS, point.sequence)
        assert handle.progress().targets.total == TARGETS
    made = envelopes_in(client, names.own_lane("t"))
    by_sequence = {envelope.sequence: envelope.targets for envelope in made}
    assert len(made) == stored + len(by_sequence) - point.sequence
    assert [target for sequence in sorted(by_sequence) for target in by_sequence[sequence]] == list(audience())
    assert all(by_sequence[envelope.sequence] == envelope.targets for envelope in made)
    sequences = [envelope.sequence for envelope in made]
    assert all(sequences.count(sequence) == 1 for sequence in range(point.sequence))


def killed(settings: Settings, when: str) -> None:
    """A process of its own submits and is killed in the middle."""
    given = {
        "pulsar": settings.pulsar.model_dump(mode="json", exclude_none=True),
        "redis": settings.redis.model_dump(mode="json", exclude_none=True),
    }
    root = SCRIPT.parents[2]
    command = [sys.executable, "-m", "tests.integration.submitting", json.dumps(given), "t", when]
    ended = subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == -signal.SIGKILL, ended.stderr
