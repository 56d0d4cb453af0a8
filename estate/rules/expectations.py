"""The settings of Fairlane that the rules need beside the facts of an estate."""

from collections.abc import Mapping
from dataclasses import dataclass, field


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
