"""Random trouble on the wire: what a verdict says about a target is what the fake knows of it."""

import asyncio
from random import Random
from typing import Any

import pytest

from tests.unit.dispatch.consumers.push.rig import Rig, codes, rigged

ANSWERS: dict[str, list[dict[str, Any]]] = {
    "fcm": [
        {"status": 503, "retry_after_s": 1},
        {"status": 429, "detail": "device"},
        {"status": 404, "code": "UNREGISTERED"},
        {"status": 500},
    ],
    "apns": [
        {"status": 503, "code": "ServiceUnavailable"},
        {"status": 429, "code": "TooManyRequests"},
        {"status": 410, "code": "Unregistered"},
        {"status": 400, "code": "IdleTimeout"},
    ],
}


def random_rules(name: str, chance: Random) -> dict[str, Any]:
    """Return rules with up to three kinds of trouble."""
    kinds: list[dict[str, Any]] = [
        {"goaway": {"after": chance.randint(1, 60), "untaken": chance.choice([0, 3, 20])}},
        {"reset_after": chance.randint(1, 80)},
        {"half_open_after": chance.randint(0, 60)},
        {"streams": chance.choice([1, 2, 10])},
        {"answers": [{**chance.choice(ANSWERS[name]), "share": chance.choice([0.05, 0.3])}]},
        {"latency_ms": [0, chance.choice([1, 20, 80])]},
    ]
    return {name: value for kind in chance.sample(kinds, chance.randint(1, 3)) for name, value in kind.items()}


async def play(at: Rig, chance: Random) -> None:
    for number in range(4):
        at.rule(**random_rules(at.name, chance))
        at.gate.open_all()
        targets = at.targets(chance.choice([1, 30, 150]), first=1_000 * number)
        verdicts = codes(await at.deliver(targets))
        await asyncio.sleep(0.05)  # requests that were cancelled may still arrive
        at.judge(targets, verdicts)


@pytest.mark.parametrize("seed", range(3))
@rigged(timeout_s=2.0, request_timeout_s=0.7)
async def test_verdicts_are_true(at: Rig, seed: int) -> None:
    await play(at, Random(seed))
