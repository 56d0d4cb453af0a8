"""References to credentials: files, variables and entry points, read again when they change, never shown."""

from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest

from consumers.delivery.push import credentials
from consumers.delivery.push.credentials import MAX_BYTES, Credential, CredentialSource
from dispatcher.model.errors import InvalidInput

CALLS: list[str] = []
NO_BYTES: dict[str, Any] = {"text": "hush", "none": None, "number": 9, "list": [104, 117]}
"""Values that an entry point may return by mistake."""


def vault(rest: str) -> bytes:
    """An entry point of a user."""
    CALLS.append(rest)
    if rest == "down":
        raise OSError("hush")
    if rest in NO_BYTES:
        return NO_BYTES[rest]  # type: ignore[no-any-return]
    return b"hush-of-" + rest.encode()


@pytest.fixture(autouse=True)
def _vault(monkeypatch: pytest.MonkeyPatch) -> None:
    found = EntryPoint("vault", f"{__name__}:vault", credentials.ENTRY_POINTS)
    monkeypatch.setattr(credentials, "entry_points", lambda group, name: [found] if name == "vault" else [])


def test_a_file_is_read_again_and_keeps_its_version_while_it_is_the_same(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.write_bytes(b"one")
    source = CredentialSource(f"file:{file}")
    first = source.current()
    assert source.current() is first
    file.write_bytes(b"two")
    second = source.current()
    assert (second.secret, second.version != first.version) == (b"two", True)


@pytest.mark.parametrize("damage", ["gone", "empty", "huge", "folder"])
def test_what_can_no_longer_be_read_stays_in_use(damage: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = tmp_path / "secret"
    file.write_bytes(b"one")
    source = CredentialSource(f"file:{file}")
    first = source.current()
    file.unlink()
    if damage == "folder":
        file.mkdir()
    elif damage != "gone":
        file.write_bytes(b"" if damage == "empty" else b"x" * (MAX_BYTES + 1))
    for _ in range(5):
        assert source.current() is first
    assert caplog.text.count("stays in use") == 1


def test_a_variable_and_an_entry_point() -> None:
    assert CredentialSource("env:SECRET", {"SECRET": "hush"}).current().secret == b"hush"
    assert CredentialSource("vault:team/shop").current().secret == b"hush-of-team/shop"
    assert CALLS[-1] == "team/shop"


@pytest.mark.parametrize(
    ("reference", "named"),
    [
        ("file:/nowhere/secret", "/nowhere/secret cannot be read"),
        ("env:NOWHERE", "NOWHERE"),
        ("vault:down", "source vault of a credential failed: OSError"),
        ("vault:text", "source vault of a credential returned a str"),
        ("vault:none", "returned a NoneType"),
        ("vault:number", "returned a int"),
        ("vault:list", "returned a list"),
        ("safe:x", "no source of credentials named 'safe'"),
    ],
)
def test_what_is_wrong_is_named_without_the_secret(reference: str, named: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        CredentialSource(reference, {}).current()
    assert named in caught.value.cause
    assert "hush" not in str(caught.value)


def test_a_credential_never_shows_its_secret() -> None:
    credential = Credential(b"hush")
    assert "hush" not in f"{credential!r} {credential}"
    assert credential.version == Credential(b"hush").version
