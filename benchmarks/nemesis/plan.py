"""The schedule of faults, which follows entirely from the seed."""

from collections.abc import Iterator
from enum import StrEnum
from random import Random
from typing import NamedTuple

WORKERS, SUBMITTERS = 3, 2


class Kind(StrEnum):
    """The kinds of faults."""

    UNLOAD_TOPIC = "unload topic"
    UNLOAD_BUNDLE = "unload bundle"
    KILL_BROKER = "kill broker"
    CUT_PULSAR = "cut worker from Pulsar"
    CUT_REDIS = "cut worker from Redis"
    STOP_REDIS = "stop Redis"
    WIPE_REDIS = "wipe Redis"
    FAIL_OVER_REDIS = "fail over Redis"
    STOP_WORKER = "stop worker"
    KILL_WORKER = "kill worker"
    KILL_SUBMITTER = "kill submitter"
    NONSENSE = "nonsense in a lane"


class Victim(StrEnum):
    """The targets of faults; each suffers one fault at a time."""

    LANES = "lanes"
    BROKER = "broker"
    REDIS = "redis"
    WORKER = "worker"
    SUBMITTER = "submitter"


class Shape(NamedTuple):
    """The properties of a kind of fault."""

    victim: Victim
    """The kind of process that it hits."""
    lasts_s: tuple[float, float] = (0.0, 0.0)
    """Minimum and maximum duration."""
    weight: int = 2
    """How often it occurs in a round of all kinds."""


SHAPES: dict[Kind, Shape] = {
    Kind.UNLOAD_TOPIC: Shape(Victim.LANES),
    Kind.UNLOAD_BUNDLE: Shape(Victim.LANES),
    Kind.KILL_BROKER: Shape(Victim.BROKER, (1, 15), 1),
    Kind.CUT_PULSAR: Shape(Victim.WORKER, (1, 30)),
    Kind.CUT_REDIS: Shape(Victim.WORKER, (1, 20)),
    Kind.STOP_REDIS: Shape(Victim.REDIS, (0.5, 12), 1),
    Kind.WIPE_REDIS: Shape(Victim.REDIS, weight=1),
    Kind.FAIL_OVER_REDIS: Shape(Victim.REDIS, (0, 1), 1),
    Kind.STOP_WORKER: Shape(Victim.WORKER, (0.5, 30)),
    Kind.KILL_WORKER: Shape(Victim.WORKER, (0, 8)),
    Kind.KILL_SUBMITTER: Shape(Victim.SUBMITTER, (0, 5)),
    Kind.NONSENSE: Shape(Victim.LANES),
}
PLACES = {Victim.WORKER: WORKERS, Victim.SUBMITTER: SUBMITTERS}
GAP_S = (0.5, 7.0)
REST_S = {Victim.BROKER: 25.0, Victim.REDIS: 15.0}
"""Minimum time between two faults of a victim, so that some work is done.

A broker takes about 10 s to start, and nothing is granted for 13 s after a fault of Redis.
"""


class Step(NamedTuple):
    """A planned fault."""

    at_s: float
    """Seconds from the start."""
    kind: Kind
    number: int
    """Which of the victims."""
    lasts_s: float
    pick: float
    """In [0, 1); chooses a topic."""

    @property
    def victim(self) -> str:
        return f"{SHAPES[self.kind].victim}-{self.number}"


def plan(seed: int, seconds: float) -> list[Step]:
    """Return the faults of a run, by time. Kinds come in rounds, each in random order, so that none is omitted."""
    chance = Random(seed)
    steps: list[Step] = []
    free_s: dict[str, float] = {}
    at_s = 1.0
    for kind in _rounds(chance):
        at_s += chance.uniform(*GAP_S)
        if at_s >= seconds:
            return steps
        step = _step(kind, at_s, chance)
        if free_s.get(step.victim, 0.0) > at_s:
            continue
        if SHAPES[kind].victim is not Victim.LANES:
            free_s[step.victim] = at_s + step.lasts_s + REST_S.get(SHAPES[kind].victim, 1.0)
        steps.append(step)
    return steps


def _rounds(chance: Random) -> Iterator[Kind]:
    """Yield every kind as often as its weight, in random order, again and again."""
    while True:
        turn = [kind for kind, shape in SHAPES.items() for _ in range(shape.weight)]
        chance.shuffle(turn)
        yield from turn


def _step(kind: Kind, at_s: float, chance: Random) -> Step:
    shape = SHAPES[kind]
    number = chance.randrange(PLACES.get(shape.victim, 1))
    return Step(at_s, kind, number, chance.uniform(*shape.lasts_s), chance.random())
