"""Who changed what, keys and policies outlive an emptied Redis, with a snapshot and without."""

import json

import pytest

from fairlane import PushClient, Settings
from tests.integration.worker_crew import crew, eventually, let_commands_use, push
from tests.unit.command_line import CommandLine


@pytest.mark.timeout(240)
def test_changes_keys_and_policies_are_rebuilt(
    fresh_settings: Settings,
    tmp_path_factory: pytest.TempPathFactory,
    cli: CommandLine,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    let_commands_use(fresh_settings, monkeypatch)
    with crew(fresh_settings, tmp_path_factory.mktemp("crew"), "w1"), PushClient.connect(fresh_settings) as client:
        handle = client.submit(push(id="t"), ["a", "b"], first=1)
        eventually(lambda: handle.progress().targets.sent == 1, 60, "the first target is sent")
        live, revoked = (client.access.create("shop", ["read"]) for _ in range(2))
        client.access.revoke(revoked.id)
        cli(["app", "policy", "shop", "--tier", "medium", "--tasks", "7"])
        cli(["task", "set", "t", "weight=2", "tier=low"])
        cli(["registry", "snapshot"])
        handle.edit_message("Other")
        handle.cancel()
        eventually(lambda: handle.progress().ended, 60, "the task has ended")
        known, keys = list(client.audit(100)), client.access.keys()
        assert [entry.field for entry in known[:2]] == ["cancelled", "override"]
    assert len(known) == 9
    for options in (["--wipe"], ["--wipe", "--full"]):
        assert json.loads(cli(["registry", "rebuild", *options, "-o", "json"]).out)["complete"] is True
        with PushClient.connect(fresh_settings) as client:
            assert list(client.audit(100)) == known
            assert client.access.keys() == keys
            assert {key.id: key.state for key in keys} == {live.id: "live", revoked.id: "revoked"}
            assert client.access.policy("shop").tier == "medium"
            assert client.globals().limits_of("shop").tasks == 7
