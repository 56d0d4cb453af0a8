"""Generate a scenario from a seed: any combination that may occur in a service, small enough for thousands of runs."""

from random import Random
from typing import Any

from lab.simulator.scenario.library import check
from lab.simulator.scenario.scenario import Scenario

NAME = "random"
LARGE = "random-large"
TIERS = ("high", "medium", "low")
ENVELOPES = {NAME: 2_000, LARGE: 20_000}
"""The maximum number of envelopes in a scenario."""
LONGEST_S = 1_200


def random_scenario(seed: int, name: str = NAME) -> Scenario:
    """Return the scenario of a seed: always the same one. `name` selects the kind of scenario."""
    maker = _Maker(Random(f"{name} {seed}"), ENVELOPES[name])
    return check({"name": name, **maker.scenario()})


class _Maker:
    def __init__(self, random: Random, envelopes: int) -> None:
        self._random = random
        self._envelopes = envelopes
        self._seconds = 60 if envelopes > ENVELOPES[NAME] else 12
        """The approximate length of a run at the chosen capacity."""

    def scenario(self) -> dict[str, Any]:
        random = self._random
        tasks = self._tasks()
        capacity = random.choice([0, 0, random.randint(100, 1_000), random.randint(1_000, 10_000)])
        if capacity:
            capacity = max(capacity, sum(task["targets"] * task.get("count", 1) for task in tasks) // self._seconds)
        return {
            "about": "Generated from the seed.",
            "duration_s": LONGEST_S,
            "until": "done",
            "claim_ms": random.choice([4_000, 6_000]),
            "capacity": self._with_burst(capacity),
            "tiers": random.choice(
                [dict(zip(TIERS, (6, 3, 1), strict=True)), {t: random.randint(1, 9) for t in TIERS}]
            ),
            "sharing": random.choice(["tasks", "tasks", "apps"]),
            "app_weights": random.choice([{}, {"shop": 2.5}]),
            "caps": self._caps(tasks),
            "tasks": tasks,
            "workers": self._workers(),
            "channels": {"push": self._channel(), "mail": self._channel()},
            "faults": self._faults(),
            "changes": self._changes(tasks, capacity),
        }

    def _with_burst(self, rate: int) -> int | str:
        if not rate or self._random.random() < 0.7:
            return rate
        return f"{rate}:{max(1, rate // self._random.randint(1, 20))}"

    def _tasks(self) -> list[dict[str, Any]]:
        random = self._random
        remaining = int(self._envelopes * random.random() ** 2) + 1
        tasks = []
        for number in range(random.randint(1, 12)):
            count = random.choice([1, 1, 1, 2, 5])
            chunk = random.choice([1, 1, 5, 10, 50, 200])
            envelopes = max(1, min(remaining, random.randint(1, 1 + remaining // 2)) // count)
            remaining -= envelopes * count
            tasks.append(
                {
                    "name": f"t{number}",
                    "tier": random.choice(TIERS),
                    "targets": max(1, envelopes * chunk - random.randrange(chunk)),
                    "chunk": chunk,
                    "count": count,
                    "weight": random.choice([1, 1, 1, 0.5, 3]),
                    "cap": random.choice([0, 0, 0, 1 + envelopes * chunk // random.randint(2, self._seconds)]),
                    "channel": random.choice(["push", "push", "mail"]),
                    "app": random.choice(["shop", "news"]),
                    "lane": random.choice(["auto", "auto", "own"]),
                    "arrives_s": round(random.choice([0.0, 0.0, random.uniform(0, 8)]), 3),
                    "every_s": round(random.uniform(0, 1), 3),
                    "publish_rate": random.choice([0, 0, 0, 1 + envelopes * chunk // 5]),
                    "expires_s": random.choice([0, 0, 0, 0, 6]),
                    "max_attempts": random.randint(1, 3),
                }
            )
            if remaining <= 0:
                break
        return tasks

    def _caps(self, tasks: list[dict[str, Any]]) -> dict[str, dict[str, int | str]]:
        """Choose caps, high enough for the targets to send, so that a run ends in time."""
        random = self._random
        total = sum(task["targets"] * task["count"] for task in tasks)
        names = {"channel": ["push", "mail"], "app": ["shop", "news"], "app_channel": ["shop/push", "news/mail"]}
        caps: dict[str, dict[str, int | str]] = {kind: {} for kind in names}
        for _ in range(random.choice([0, 0, 1, 3])):
            kind = random.choice(list(names))
            rate = 1 + total // random.randint(2, self._seconds)
            caps[kind][random.choice(names[kind])] = self._with_burst(rate)
        return caps

    def _workers(self) -> list[dict[str, Any]]:
        """Choose workers. The first group stays to the end and together holds all lanes."""
        random = self._random
        groups: list[dict[str, Any]] = [
            {"name": "stays", "count": random.randint(1, 4), "sees": random.choice(["all", "all", 0.3, 0.6])}
        ]
        for number in range(random.randint(0, 3)):
            joins_s = round(random.uniform(0, 5), 2)
            group: dict[str, Any] = {
                "name": f"guest{number}",
                "count": random.randint(1, 2),
                "joins_s": joins_s,
                "sees": random.choice(["all", 0.5, [random.choice(TIERS)], ["high", "low"]]),
                "clock_off_s": random.choice([0, 0, 300, -300]),
            }
            end = random.choice(["leaves_s", "dies_s", "stalls", ""])
            if end == "stalls":
                group["stalls"] = [{"at_s": joins_s + random.uniform(0.5, 4), "for_s": random.uniform(1, 8)}]
            elif end:
                group[end] = round(joins_s + random.uniform(0.2, 10), 2)
            groups.append(group)
        return groups

    def _channel(self) -> dict[str, Any]:
        random = self._random
        return {
            "call_ms": random.choice([2, 20, 200]),
            "target_us": random.choice([0, 50]),
            "concurrency": random.choice([4, 32]),
            "batch_limit": random.choice([1, 10, 100]),
            "invalid": random.choice([0, 0, 0.02]),
            "retry": random.choice([0, 0, 0.02]),
        }

    def _faults(self) -> dict[str, Any]:
        random = self._random
        if random.random() < 0.25:
            return {}
        return {
            "late": random.choice([0, 0.05, 0.3]),
            "late_ms": random.choice([50, 300, 900]),
            "lost": random.choice([0, 0.02, 0.1]),
            "doubled": random.choice([0, 0.1, 0.4]),
            "copies": random.choice([0, 0.01, 0.1]),
            "crash_rate": random.choice([0, 0, 0.05, 0.15]),
            "restart_s": random.choice([0.1, 2]),
            "stall_rate": random.choice([0, 0, 0.05]),
            "stall_s": random.choice([1, 4, 8]),
            "until_s": self._seconds,
        }

    def _changes(self, tasks: list[dict[str, Any]], capacity: int) -> list[dict[str, Any]]:
        random = self._random
        changes: list[dict[str, Any]] = []
        for _ in range(random.choice([0, 0, 1, 2, 4])):
            entry, star = random.choice(tasks), random.choice(["", "*"])
            task = entry["name"] + ("*" if entry["count"] > 1 else star)
            at_s = round(random.uniform(0, 8), 2)
            kind = random.choice(["paused", "weight", "tier", "cap", "cancelled", "tiers", "capacity", "channel"])
            if kind == "paused":
                changes.append({"at_s": at_s, "task": task, "paused": True})
                changes.append({"at_s": at_s + round(random.uniform(0.5, 6), 2), "task": task, "paused": False})
            elif kind == "channel":
                changes.append({"at_s": at_s, "channel_paused": {"push": True}})
                changes.append({"at_s": at_s + round(random.uniform(0.5, 6), 2), "channel_paused": {"push": False}})
            elif kind == "tiers":
                changes.append({"at_s": at_s, "tiers": {tier: random.randint(1, 9) for tier in TIERS}})
            elif kind == "capacity":
                changes.append({"at_s": at_s, "capacity": 2 * capacity})
            else:
                value = {"weight": random.choice([0.2, 4]), "tier": random.choice(TIERS), "cap": 0, "cancelled": True}
                changes.append({"at_s": at_s, "task": task, kind: value[kind]})
        return changes
