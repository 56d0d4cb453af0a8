"""A fake of FCM in a process of its own, for the demo and the benchmarks."""

import json
import ssl
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

from dispatcher.model.errors import FairlaneError

MESSAGE_ID = "task"
"""Key of the messages' data by which the fake tells apart two messages to one device."""
_NEEDED = ("pycurl", "certifi", "google.auth", "cryptography", "hpack")
_ASK_WITHIN_S = 10.0


@dataclass(frozen=True)
class FakeFcm:
    """A running fake."""

    served: dict[str, str]
    """Its address and files, as `fairlane fake fcm` prints them."""
    pid: int
    """Its process."""

    def environment(self, apps: Sequence[str]) -> dict[str, str]:
        """Return the variable that makes workers send these apps' tasks to the fake."""
        ours = {name: self.served[name] for name in ("credentials", "project_id", "url", "ca_file")}
        app = {**dict.fromkeys(("proxy", "connections", "streams")), **ours}
        """All fields, since the user's settings file may have an app of this name."""
        return {"FAIRLANE_CHANNELS_FCM": json.dumps({"apps": dict.fromkeys(apps, app)})}

    def ask(self, method: str, path: str, document: object = None) -> Any:
        """Make a request below /_fake/."""
        context = ssl.create_default_context(cafile=self.served["ca_file"])
        data = None if document is None else json.dumps(document).encode()
        request = Request(f"{self.served['url']}/_fake/{path}", data, method=method)
        with urlopen(request, context=context, timeout=_ASK_WITHIN_S) as answer:
            return json.load(answer)


def can_run() -> bool:
    """Return whether the extras `push` and `lab` are installed."""
    try:
        return all(find_spec(name) is not None for name in _NEEDED)
    except ModuleNotFoundError:  # the package that holds one of them
        return False


@contextmanager
def running(folder: Path) -> Iterator[FakeFcm]:
    """Run a fake. Raises FairlaneError if it does not start."""
    folder.mkdir(parents=True, exist_ok=True)
    rules = folder / "rules.json"
    rules.write_text(json.dumps({"message_id": MESSAGE_ID}))
    command = [sys.executable, "-m", "fairlane", "fake", "fcm", "--port", "0", "-o", "json"]
    command += ["--folder", str(folder), "--rules", str(rules)]
    log = folder / "fake.log"
    with log.open("ab") as errors, subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors) as process:
        try:
            assert process.stdout is not None
            served = first_document(process.stdout)
            if served is None:
                raise FairlaneError("The fake FCM did not start.", f"See {log}.")
            yield FakeFcm(served, process.pid)
        finally:
            process.terminate()


def first_document(lines: Iterable[bytes]) -> Any:
    """Return the first JSON object among the lines; None if they end before it does."""
    text = b""
    for line in lines:
        text += line
        if line.rstrip() == b"}":
            return json.loads(text)
    return None
