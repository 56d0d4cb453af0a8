"""One finding about an estate, and what the rules are told beside its facts."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class Level(StrEnum):
    """How bad a finding is."""

    OK = "ok"
    NOTE = "note"
    """Worth knowing; nothing needs to be done here."""
    WARN = "warn"
    """It works, but worse, or one event makes it fail."""
    FAIL = "fail"
    """It does not work as promised, or one lost node stops every lane."""


@dataclass(frozen=True, kw_only=True)
class EstateFinding:
    """One result of a rule."""

    level: Level
    what: str
    """The case, and the node it is of."""
    figure: str = ""
    """The measured or set value against the wanted one."""
    reason: str = ""
    """The harm that it does."""
    fix: str = ""


@dataclass(frozen=True, kw_only=True)
class Expectations:
    """Settings of Fairlane that the estate is checked against."""

    guarded: bool = False
    """Whether a guard isolates slow nodes."""
    racks: Mapping[str, str] = field(default_factory=dict)
    """Rack by bookie, as configured."""
    offload: bool = False
    """Whether an offload policy is configured for the system namespace."""
    system_namespace: str = ""
    system_brokers: tuple[str, ...] = ()
    """Regular expressions of the brokers for the system namespace; empty: any."""
    system_bookies: tuple[str, ...] = ()
    """Bookies for the system namespace, hosts or host:port; empty: any."""
    envelope_bytes: int = 33_000
    """Size of a large envelope."""
