"""Credentials of apps: read from where the settings say, read again when they change, never shown."""

import hashlib
import json
import logging
import os
from collections.abc import Callable, Mapping
from importlib.metadata import entry_points
from pathlib import Path
from typing import cast

from backends.files import BOM
from consumers.delivery.push.mangled import restored
from dispatcher.model.errors import InvalidInput
from dispatcher.model.shown import hide, hide_named

ENTRY_POINTS = "fairlane.credentials"
"""Group of the entry points for other places, such as vaults. The name is the scheme; the object takes what comes after
the colon and returns bytes."""
MAX_BYTES = 64 * 1024
GOOGLE_DEFAULT = "google_default"
"""The field `type` of a credential that Google's library finds: the file that GOOGLE_FILE names, or else the identity
of the machine, pod or service that this process runs on."""
GOOGLE_FILE = "GOOGLE_APPLICATION_CREDENTIALS"
_log = logging.getLogger(__name__)


class Credential:
    """A secret and its version. Its text never shows the secret, and so does no other text of the process."""

    __slots__ = ("secret", "version")

    def __init__(self, secret: bytes) -> None:
        self.secret = restored(secret)
        _hide(secret)
        _hide(self.secret)
        self.version = version_of(secret)
        """Differs whenever the secret does."""

    def __repr__(self) -> str:
        return f"Credential(version={self.version})"


def version_of(secret: bytes) -> str:
    return hashlib.blake2b(secret, digest_size=6).hexdigest()


def _hide(secret: bytes) -> None:
    text = secret.decode(errors="replace")
    try:
        hide_named(json.loads(text))
    except (ValueError, RecursionError):
        hide(text)


class CredentialSource:
    """The credential at a reference: `file:PATH`, `env:NAME`, `google:default`, or the scheme of an entry point."""

    def __init__(self, reference: str, environment: Mapping[str, str] = os.environ) -> None:
        """Raises InvalidInput if the reference has no known scheme."""
        self._read = _reader(reference, environment)
        self._current: Credential | None = None
        self._complained = ""

    def current(self) -> Credential:
        """Read the credential; return the same object while it has not changed. Blocks.

        Raises InvalidInput if it cannot be read and never could; later, the last one stays in use.
        """
        before = self._current
        try:
            secret = self._read()
        except InvalidInput as error:
            if before is None:
                raise
            self._complain(error)
            return before
        self._complained = ""
        if before is None or before.version != version_of(secret):
            self._current = Credential(secret)
        return cast("Credential", self._current)

    def _complain(self, error: InvalidInput) -> None:
        if self._complained != str(error):
            self._complained = str(error)
            _log.warning("%s The previous credential stays in use.", error)


def _reader(reference: str, environment: Mapping[str, str]) -> Callable[[], bytes]:
    scheme, _, rest = reference.partition(":")
    if scheme == "file":
        return lambda: _file(rest)
    if scheme == "env":
        return lambda: _variable(rest, environment)
    if reference == "google:default":
        return lambda: _google_default(environment)
    for found in entry_points(group=ENTRY_POINTS, name=scheme):
        return lambda: _foreign(scheme, found.load, rest)
    raise InvalidInput(
        f"There is no source of credentials named {scheme!r}.",
        f"Use file:, env: or google:, or install a package with an entry point {scheme!r} in the group {ENTRY_POINTS}.",
    )


def _file(path: str) -> bytes:
    try:
        with Path(path).open("rb") as file:
            return _checked(file.read(MAX_BYTES + 1).removeprefix(BOM), path)
    except (OSError, ValueError) as error:
        raise InvalidInput(
            f"The credential file {path} cannot be read: {getattr(error, 'strerror', error)}.",
            "Correct the path, or its permissions.",
        ) from error


def _variable(name: str, environment: Mapping[str, str]) -> bytes:
    if name not in environment:
        raise InvalidInput(f"The variable {name} with a credential is not set.", "Set it for the worker.")
    return _checked(environment[name].encode(), name)


def _google_default(environment: Mapping[str, str]) -> bytes:
    """Return a placeholder of Google's default credentials, with a digest of their file, so that a change shows."""
    path = environment.get(GOOGLE_FILE)
    digest = hashlib.blake2b(_file(path), digest_size=16).hexdigest() if path else ""
    return f'{{"type": "{GOOGLE_DEFAULT}", "file": "{digest}"}}'.encode()


def _foreign(scheme: str, load: Callable[[], Callable[[str], object]], rest: str) -> bytes:
    try:
        secret = load()(rest)
    except Exception as error:  # a vault's client may raise anything
        raise InvalidInput(
            f"The source {scheme} of a credential failed: {type(error).__name__}.", "See the log of its service."
        ) from error
    if not isinstance(secret, (bytes, bytearray)):
        raise InvalidInput(
            f"The source {scheme} of a credential returned a {type(secret).__name__}.", "It must return bytes."
        )
    return _checked(bytes(secret), f"{scheme}:{rest}")


def _checked(secret: bytes, where: str) -> bytes:
    if not secret.strip():
        raise InvalidInput(f"The credential at {where} is empty.", "Put the secret there.")
    if len(secret) > MAX_BYTES:
        raise InvalidInput(f"The credential at {where} has more than {MAX_BYTES:,} bytes.", "Check the reference.")
    return secret
