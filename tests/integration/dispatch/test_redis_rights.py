"""A Redis user with too few rights: doctor and the errors name a rule, and the rule works as it is written."""

import json
import re
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
import redis

from benchmarks import redis_server
from fairlane import PushClient, Settings
from fairlane.cli.base import exit_codes
from tests.integration.worker_crew import audience, crew, let_commands_use, on_redis, push
from tests.unit.command_line import CommandLine

RULE = re.compile(r"ACL SETUSER keys [^`]*")
TOO_FEW = {
    "no keys": "+@all",
    "other keys": "~other:* +@all",
    "keys without the prefix itself": "~{prefix}:* +@all",
    "the prefix alone": "~{prefix} +@all",
    "no scripts": "~{prefix} ~{prefix}:* +@all -@scripting",
    "reading only": "~{prefix} ~{prefix}:* +@read +@connection +info +evalsha +eval +script",
}


@pytest.fixture
def server() -> Iterator[redis_server.RedisServer]:
    with redis_server.running() as server:
        yield server


@pytest.fixture
def admin(server: redis_server.RedisServer) -> Iterator[redis.Redis]:
    with closing(redis.Redis(port=server.port)) as admin:
        yield admin


@pytest.fixture
def settings(server: redis_server.RedisServer, fresh_settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Settings:
    settings = on_redis(fresh_settings, server.url.replace("redis://", "redis://keys:hush@"))
    let_commands_use(settings, monkeypatch)
    return settings


def allow(admin: redis.Redis, prefix: str, rights: str) -> None:
    admin.execute_command("ACL", "SETUSER", "keys", "reset", "on", ">hush", *rights.format(prefix=prefix).split())  # type: ignore[no-untyped-call]


def redis_failures(cli: CommandLine, code: int) -> list[str]:
    found = json.loads(cli(["doctor", "-o", "json"], code).out)
    return [f"{one['what']} {one['fix']}" for one in found if one["level"] == "fail" and "Redis" in one["what"]]


@pytest.mark.parametrize("rights", TOO_FEW.values(), ids=TOO_FEW)
def test_a_right_that_is_missing_is_found_and_the_rule_in_the_message_gives_it(
    rights: str, admin: redis.Redis, settings: Settings, cli: CommandLine
) -> None:
    allow(admin, settings.redis.prefix, rights)
    (failure,) = redis_failures(cli, exit_codes.FAILURE)
    rule = RULE.search(failure)
    assert rule is not None
    admin.execute_command(*rule[0].split())  # type: ignore[no-untyped-call]
    cli(["doctor"])
    cli(["task", "list"])


@pytest.mark.timeout(180)
def test_the_rule_suffices_for_workers_submissions_and_commands(
    admin: redis.Redis, settings: Settings, tmp_path: Path, cli: CommandLine
) -> None:
    allow(admin, settings.redis.prefix, "")
    (failure,) = redis_failures(cli, exit_codes.FAILURE)
    rule = RULE.search(failure)
    assert rule is not None
    admin.execute_command(*rule[0].split())  # type: ignore[no-untyped-call]
    admin.execute_command("ACL", "LOG", "RESET")  # type: ignore[no-untyped-call]
    with crew(settings, tmp_path, "w1") as members, PushClient.connect(settings) as client:
        handle = client.submit(push(), audience(100))
        members.check_sent_once(handle, audience(100), 60)
        for command in ("task show", "task why"):
            cli([*command.split(), handle.id])
        for command in (
            "task list",
            "worker list",
            "signals",
            "tier show",
            "channel list",
            "registry status",
            "doctor",
        ):
            cli(command.split())
        assert members.leave("w1") == 0
    assert admin.execute_command("ACL", "LOG") == []  # type: ignore[no-untyped-call]
