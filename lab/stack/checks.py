"""The needs of the local stack on this machine, for `fairlane doctor`."""

import os
import shutil
from collections.abc import Iterator

from dispatcher.analysis.finding import Finding
from fairlane.settings import Settings
from lab.stack import java
from lab.stack.distribution import VERSION
from lab.stack.errors import StackError


def local_findings(settings: Settings) -> Iterator[Finding]:
    """Check Java, Maven and the cached distribution. Only the local stack needs them, so a missing one is a warning."""
    only = "only the local stack needs it"
    try:
        java_program = java.find(os.environ)
        yield Finding("ok", f"Java {java_program.version} ({java_program.program})")
    except StackError as error:
        yield Finding("warn", f"{error.cause} ({only})", error.next_step)
    cached = (settings.cache_folder / f"apache-pulsar-{VERSION}").is_dir()
    if cached:
        yield Finding("ok", f"Pulsar {VERSION} is in the cache ({settings.cache_folder})")
    elif shutil.which("mvn"):
        yield Finding("ok", "Maven is there; it fetches Pulsar when the local stack is first started")
    else:
        yield Finding("warn", f"Maven was not found ({only}, once)", "Install it, or run `make setup`.")
