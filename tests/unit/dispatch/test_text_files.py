"""Files that people write are read by one rule: a byte order mark is skipped, and size and nesting are bounded."""

import json
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from backends.files import MAX_BYTES
from consumers.delivery.push.credentials import CredentialSource
from dispatcher.channels.specs import SPECS
from dispatcher.model.errors import InvalidInput, NotFound
from fairlane.cli.base.json_option import read_message, read_object
from fairlane.settings import load_settings
from lab.fake.rules import load_rules
from lab.simulator.scenario.library import find
from producers.files.targets_file import TargetsFile
from producers.files.task_file import read_entries

Read = Callable[[Path], Any]
TASK = 'id: news\nmessage: {"title": "New"}\ntargets: [one]\n'
READERS: dict[str, tuple[str, str, Read]] = {
    "message": ("message.json", '{"title": "New"}', lambda file: read_message(str(file))),
    "message as a text": ("message.txt", "Hello", lambda file: read_message(str(file))),
    "locales": ("de.json", '{"de": {"body": "Hallo"}}', lambda file: read_object(str(file), "locales")),
    "settings": (
        "fairlane.toml",
        '[pulsar]\nurl = "pulsar://one:6650"\n',
        lambda file: load_settings({"config": file}),
    ),
    "rules": ("rules.toml", "token_lifetime_s = 60\n", lambda file: load_rules(file, SPECS["fcm"].table)),
    "rules in JSON": ("rules.json", '{"streams": 5}', lambda file: load_rules(file, SPECS["fcm"].table)),
    "tasks": ("tasks.yaml", TASK, lambda file: read_entries(file)[0].fields),
    "tasks in JSON": ("tasks.json", '{"id": "news", "message": "Hi"}', lambda file: read_entries(file)[0].fields),
    "scenario": (
        "some.yaml",
        "duration_s: 30\ntasks: [{name: a, targets: 5}]\nworkers: [{}]\n",
        lambda file: find(str(file)),
    ),
    "credential": ("key.json", '{"type": "x"}', lambda file: CredentialSource(f"file:{file}").current().secret),
    "targets": ("list.txt", "one\ntwo\n", lambda file: list(TargetsFile(file))),
    "targets in CSV": ("list.csv", "token,name\none,Ann\n", lambda file: list(TargetsFile(file))),
    "targets in JSON": ("list.json", '["one"]', lambda file: list(TargetsFile(file))),
}
STREAMED = ("targets", "targets in CSV", "targets in JSON")
"""Audiences of any size."""


def stored(folder: Path, name: str, data: bytes) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / name).write_bytes(data)
    return folder / name


@pytest.mark.parametrize("what", READERS)
def test_a_byte_order_mark_is_skipped_wherever_a_text_is_read(tmp_path: Path, what: str) -> None:
    name, text, read = READERS[what]
    plain = read(stored(tmp_path / "plain", name, text.encode()))
    assert plain
    assert str(read(stored(tmp_path / "marked", name, b"\xef\xbb\xbf" + text.encode()))) == str(plain).replace(
        "/plain/", "/marked/"
    )


@pytest.mark.parametrize("data", ["name: é".encode("utf-16"), b"\xff\xfe", b"PK\x03\x04\0\0", b"Jos\xe9"])
@pytest.mark.parametrize("what", [name for name in READERS if name not in (*STREAMED, "credential")])
def test_a_file_that_is_not_utf_8_is_refused_by_name(tmp_path: Path, what: str, data: bytes) -> None:
    name, _, read = READERS[what]
    with pytest.raises(InvalidInput, match=rf"{name} is not a text in UTF-8"):
        read(stored(tmp_path, name, data))


@pytest.mark.parametrize("what", [name for name in READERS if name not in STREAMED and "message" not in name])
@pytest.mark.parametrize("path", [".", "nowhere", "/dev/zero", "a\0b"])
def test_a_path_that_is_no_file_is_refused(what: str, path: str) -> None:
    _, _, read = READERS[what]
    with pytest.raises((InvalidInput, NotFound)):
        read(Path(path))


LAUGHS = "\n".join(
    [
        "id: laughs",
        "app: shop",
        "message:",
        "  a: &a0 [x, x, x, x, x, x, x, x, x]",
        *(f"  a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * 9)}]" for level in range(1, 12)),
    ]
)
DEEP_KEY = ".".join("a" * 10_000)
HOSTILE = {
    "nested": "[" * 5_000,
    "nested objects": '{"a":' * 5_000,
    "nested as TOML": "a = " + "[" * 5_000,
    "nested tables": f"{DEEP_KEY} = 1",
    "nested table": f"[{DEEP_KEY}]\nb = 1",
    "nested quoted names": ".".join(['"a"'] * 10_000) + " = 1",
    "nested as YAML": "- " * 2_000,
    "aliases": LAUGHS,
    "merged aliases": LAUGHS.replace("[", "{<<: [").replace("]", "]}"),
    "itself": "- message: &a {b: *a}",
    "large": "#" * (MAX_BYTES + 1),
}
NO_BRACKET = ("message as a text", "credential", *STREAMED)


@pytest.mark.parametrize("hostile", HOSTILE)
@pytest.mark.parametrize("what", [name for name in READERS if name not in NO_BRACKET])
def test_a_hostile_file_is_refused_in_little_memory(tmp_path: Path, what: str, hostile: str) -> None:
    name, _, read = READERS[what]
    file = stored(tmp_path, name, HOSTILE[hostile].encode())
    tracemalloc.start()
    try:
        with pytest.raises(InvalidInput):
            read(file)
        assert tracemalloc.get_traced_memory()[1] < 100 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("content", ["text", "[1]", '"text"', "null", "{", '{"title": "New",}', "", "{} {}"])
def test_a_message_file_that_ends_in_json_and_holds_no_object_is_refused(tmp_path: Path, content: str) -> None:
    for data in (content.encode(), b"\xef\xbb\xbf" + content.encode()):
        for name in ("new.json", "new.JSON"):
            with pytest.raises(InvalidInput, match=rf"{name} is (not|empty)"):
                read_message(str(stored(tmp_path, name, data)))
            with pytest.raises(InvalidInput, match="is not"):
                read_object(str(tmp_path / name), "locales")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{{name}}, hello", "{{name}}, hello"),
        ("\ufeffHello", "Hello"),
        ('\ufeff {"body": "Hi"}', {"body": "Hi"}),
        ("[SALE] today", "[SALE] today"),
    ],
)
def test_a_message_is_an_object_or_a_text_by_what_it_says(tmp_path: Path, text: str, message: object) -> None:
    assert read_message(text) == message
    assert read_message(str(stored(tmp_path, "message.txt", text.encode()))) == message
    assert json.dumps(message)
