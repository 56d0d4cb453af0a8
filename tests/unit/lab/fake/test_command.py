"""`fairlane fake`: what it prints is enough to send a push; it ends when asked to."""

import asyncio
import json
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from backends import extras
from consumers.delivery.http2.curl_client import CurlClient
from consumers.delivery.http2.settings import ClientSettings
from fairlane.cli.base import exit_codes
from lab.fake.process import first_document
from tests.unit.command_line import CommandLine
from tests.unit.lab.fake.playing import FCM_PATH, Playing, fcm_target, grant

ROOT = Path(__file__).parents[4]


@contextmanager
def started(*arguments: str, number: int = signal.SIGTERM) -> Iterator[dict[str, Any]]:
    """Yield what the command printed. Afterwards `message` holds its last message."""
    command = [sys.executable, "-m", "fairlane", "fake", *arguments, "--port", "0", "-o", "json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=ROOT) as process:
        assert process.stdout is not None
        printed = first_document(process.stdout)
        try:
            yield printed
        finally:
            process.send_signal(number)
            _, message = process.communicate(timeout=20)
            printed["message"], printed["code"] = message.decode(), process.returncode


def test_a_push_with_what_fcm_prints(tmp_path: Path) -> None:
    rules = tmp_path / "rules.json"
    rules.write_text('{"answers": [{"status": 503, "times": 1}]}')
    folder, ca_file = tmp_path / "fakes", tmp_path / "elsewhere" / "ca.pem"

    async def main(printed: dict[str, Any], account: dict[str, str]) -> None:
        client = CurlClient(ClientSettings(ca_file=printed["ca_file"]))
        playing = Playing(None, printed["url"], folder, client, {}, account)  # type: ignore[arg-type]  # elsewhere
        token = json.loads((await grant(playing)).body)["access_token"]
        body = json.dumps({"message": {"token": fcm_target(1), "data": {"k": "v"}}}).encode()
        path = FCM_PATH.replace("demo", printed["project_id"])
        answers = [await playing.post(path, body, authorization=f"Bearer {token}") for _ in range(2)]
        assert [one.status for one in answers] == [503, 200]
        await client.close()

    given = ("--folder", str(folder), "--ca-file", str(ca_file), "--rules", str(rules), "--project-id", "shop")
    with started("fcm", *given) as printed:
        assert printed["ca_file"] == str(ca_file)
        asyncio.run(main(printed, json.loads(Path(printed["credentials"].removeprefix("file:")).read_text())))
    assert printed["code"] == 0
    assert "2 requests; 1 messages accepted, for 1 targets" in printed["message"]
    for file in folder.iterdir():
        assert file.stat().st_mode & 0o077 == 0


def test_what_apns_prints_is_there(tmp_path: Path) -> None:
    with started("apns", "--folder", str(tmp_path), "--topic", "com.shop", number=signal.SIGINT) as printed:
        for name in ("credentials", "client_certificate"):
            assert "PRIVATE KEY" in Path(printed[name].removeprefix("file:")).read_text()
        assert (printed["topic"], bool(printed["key_id"]), bool(printed["team_id"])) == ("com.shop", True, True)
    assert printed["code"] == 0


# ---------------------------------------------------------------- wrong input
def test_a_port_that_is_taken_is_named(tmp_path: Path, cli: CommandLine) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        reported = cli(["fake", "fcm", "--port", str(port), "--folder", str(tmp_path)], exit_codes.REFUSED).err
    assert f"Port {port} of 127.0.0.1 is taken. Name another with --port" in reported


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--rules", "nowhere.toml"], "nowhere.toml cannot be read"),
        (["--host", "192.0.2.1"], "Name an address of this machine"),
        (["--folder", "/dev/null/x"], "cannot be written"),
    ],
)
def test_wrong_options_are_named(tmp_path: Path, cli: CommandLine, arguments: list[str], message: str) -> None:
    given = ["fake", "apns", "--port", "0", "--folder", str(tmp_path), *arguments]
    assert message in cli(given, exit_codes.USAGE).err


@pytest.mark.parametrize(
    ("command", "packages"), [("fake fcm", "cryptography and hpack"), ("simulate apps", "lupa and msgpack")]
)
def test_without_the_extra_it_says_what_to_install(
    command: str, packages: str, monkeypatch: pytest.MonkeyPatch, cli: CommandLine
) -> None:
    monkeypatch.setattr(extras, "find_spec", lambda name: None)
    message = cli(command.split(), exit_codes.USAGE).err
    assert f"This needs {packages} installed." in message
    assert "[lab]" in message


def test_without_uvloop_it_uses_the_ordinary_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    from lab.fake import server

    monkeypatch.setattr(server, "find_spec", lambda name: None)
    assert server.loop_factory() is None
