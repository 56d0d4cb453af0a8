"""Advice helps: each step that an error names is taken as it is written."""

import re

import pytest

from backends.pulsar.admin import PulsarAdmin
from dispatcher.model.errors import FairlaneError, NotFound, Refused
from dispatcher.wire.topics import Topics
from fairlane import PushClient, Settings
from tests.integration.worker_crew import audience, let_commands_use, push
from tests.unit.command_line import CommandLine


def submit(settings: Settings, **fields: object) -> None:
    with PushClient.connect(settings) as client:
        client.submit(push(**fields), audience(10))


def follow(error: FairlaneError, admin: PulsarAdmin, cli: CommandLine) -> list[str]:
    """Do what the message says; return what was done."""
    steps = re.findall(r"`([^`]+)`", error.next_step)
    for step in steps:
        program, *arguments = step.split()
        if program == "fairlane":
            cli(arguments)
        else:
            assert (program, *arguments[:2]) == ("pulsar-admin", "topics", "delete")
            topic = re.search(r"persistent://[\w/.-]+[\w]", error.cause)
            assert topic is not None
            assert admin.delete_topic(topic[0], force=arguments[2:] == ["TOPIC", "--force"])
    return steps


def test_a_terminated_lane_is_made_again_as_the_message_says(
    fresh_settings: Settings, admin: PulsarAdmin, names: Topics, monkeypatch: pytest.MonkeyPatch, cli: CommandLine
) -> None:
    let_commands_use(fresh_settings, monkeypatch)
    cli(["provision"])
    admin.post(f"{names.shared_lane_of('a-task').replace('://', '/')}/terminate", None)
    with pytest.raises(Refused, match="accepts no more messages") as caught:
        submit(fresh_settings, id="a-task", tier="low")
    assert len(follow(caught.value, admin, cli)) == 2
    submit(fresh_settings, id="a-task", tier="low")


def test_a_topic_that_is_missing_is_made_as_the_message_says(
    fresh_settings: Settings, admin: PulsarAdmin, names: Topics, monkeypatch: pytest.MonkeyPatch, cli: CommandLine
) -> None:
    let_commands_use(fresh_settings, monkeypatch)
    cli(["provision"])
    admin.delete_topic(names.control, force=True)
    with pytest.raises((NotFound, Refused)) as caught:
        submit(fresh_settings)
    assert follow(caught.value, admin, cli) == ["fairlane provision"]
    submit(fresh_settings)
