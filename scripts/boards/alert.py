"""The form of an alert, and how it becomes rules of Prometheus."""

from dataclasses import dataclass
from typing import Any, Final, Literal

import yaml

from scripts.boards.installation import Installation

Severity = Literal["warning", "critical"]
GROUP: Final = "fairlane"


@dataclass(frozen=True, kw_only=True)
class Level:
    """A condition, and how long it must hold."""

    severity: Severity
    expr: str
    held: str
    """A duration of Prometheus."""


@dataclass(frozen=True, kw_only=True)
class Alert:
    """One alert. Its name and its anchor in the runbooks follow from its title."""

    title: str
    """As the heading in docs/runbooks.md: Slow bookie."""
    levels: tuple[Level, ...]
    """More than one: a worse figure is reported sooner, and as more severe."""
    summary: str
    """One line with the node and the figure, as a template of Prometheus."""

    @property
    def name(self) -> str:
        """SlowBookie."""
        return "".join(word[0].upper() + word[1:] for word in self.title.replace("-", " ").split())

    @property
    def anchor(self) -> str:
        """slow-bookie."""
        return self.title.lower().replace(" ", "-")


@dataclass(frozen=True)
class Recorded:
    """A figure that several expressions use, computed once."""

    name: str
    """With a colon, as Prometheus' convention has it."""
    expr: str


def rules_text(recorded: tuple[Recorded, ...], alerts: tuple[Alert, ...], installation: Installation) -> str:
    """Return the file of rules."""
    rules: list[dict[str, Any]] = [{"record": one.name, "expr": one.expr} for one in recorded]
    rules += [_rule(alert, level, installation) for alert in alerts for level in alert.levels]
    content = {"groups": [{"name": GROUP, "rules": rules}]}
    return f"{_MADE}{yaml.safe_dump(content, sort_keys=False, width=1_000, allow_unicode=True)}"


_MADE = "# Written by `python -m scripts.boards`: change scripts/boards/, then run it again.\n"


def _rule(alert: Alert, level: Level, installation: Installation) -> dict[str, Any]:
    return {
        "alert": alert.name,
        "expr": level.expr,
        "for": level.held,
        "labels": {"severity": level.severity, "service": "fairlane"},
        "annotations": {
            "summary": alert.summary,
            "runbook_url": f"{installation.runbooks}#{alert.anchor}",
        },
    }
