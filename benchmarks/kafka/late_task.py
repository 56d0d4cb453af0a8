"""A late task behind others of its tier: its size, its fair time, and what is computed from a run.

It needs nothing but the standard library; the Kafka client's environment has nothing else.
"""

from dataclasses import dataclass

WEIGHTS = {"high": 6, "medium": 3, "low": 1}


@dataclass(frozen=True, kw_only=True)
class TestBed:
    """Tasks that are there before the late one; all tiers have a backlog until it ends."""

    capacity: int = 2_000
    """Targets/s."""
    chunk: int = 10
    """Targets of a message."""
    earlier: int = 4
    """Tasks of the late one's tier, high, that were submitted before it."""
    earlier_targets: int = 6_000
    """Targets of each."""
    late_targets: int = 1_000
    after_s: float = 2.0
    """When the late task is submitted, after the first target was handled."""

    @property
    def high_rate(self) -> float:
        """Targets/s of its tier."""
        return self.capacity * WEIGHTS["high"] / sum(WEIGHTS.values())

    @property
    def fair_s(self) -> float:
        """Time in which the late task is sent if all tasks of its tier share it equally."""
        return self.late_targets * (self.earlier + 1) / self.high_rate

    def backlog(self, tier: str) -> int:
        """Return the targets that a lower tier needs, so that it has some until all of high is sent."""
        high = self.earlier * self.earlier_targets + self.late_targets
        return round(1.5 * high * WEIGHTS[tier] / WEIGHTS["high"])


def figures(scene: TestBed, *, took_s: float, earlier_left: int) -> dict[str, float]:
    """Return the figures of a run. earlier_left: targets of earlier tasks that were not sent when the late one was."""
    everything = scene.earlier * scene.earlier_targets
    return {
        "seconds from submit to sent": took_s,
        "compared with the fair time": took_s / scene.fair_s,
        "targets of earlier tasks sent before it was done, %": 100 * (1 - earlier_left / everything),
    }
