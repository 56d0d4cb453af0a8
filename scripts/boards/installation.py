"""One installation as boards and rules need to know it."""

import re
from dataclasses import dataclass

from backends.settings import EstateSettings

_TENANT = re.compile(r"[-\w.]+")


@dataclass(frozen=True, kw_only=True)
class Installation:
    """Names and limits that differ from one installation to the next. Raises ValueError."""

    tenant: str = "fairlane"
    """`pulsar.tenant`."""
    runbooks: str = "docs/runbooks.md"
    """Address of the runbooks, without an anchor."""
    slow_ms: float = EstateSettings().slow_ms
    """`estate.slow_ms`."""
    slow_ratio: float = EstateSettings().slow_ratio
    """`estate.slow_ratio`."""

    def __post_init__(self) -> None:
        if not _TENANT.fullmatch(self.tenant):
            raise ValueError(f"{self.tenant!r} is no name of a tenant")
        if self.slow_ms <= 0 or self.slow_ratio <= 1:
            raise ValueError("slow_ms must be more than 0, and slow_ratio more than 1")

    @property
    def namespaces(self) -> str:
        """A matcher of all namespaces of this installation."""
        return f'namespace=~"{self._tenant}/.+"'

    @property
    def lane_namespaces(self) -> str:
        """A matcher of the namespaces with lanes, in which each topic has one subscription."""
        return f'namespace=~"{self._tenant}/(shared|tasks-.+)"'

    @property
    def system_namespace(self) -> str:
        """A matcher of the namespace with records, which are read without a lasting subscription."""
        return f'namespace="{self.tenant}/system"'

    @property
    def _tenant(self) -> str:
        return self.tenant.replace(".", "\\\\.")
