"""Which primary the Sentinels are believed to name, and what is said if they name none."""

import threading
from collections.abc import Mapping
from queue import Queue
from typing import Any

import pytest
from redis import exceptions

from backends.redis.faults import NoPrimary
from backends.redis.sentinel import OTHERS_S, Sentinels

HOSTS = (("a", 1), ("b", 2), ("c", 3))
GONE = exceptions.ConnectionError("Connection refused.")


def state(ip: str, config_epoch: int) -> dict[str, Any]:
    return {"ip": ip, "port": 7000, "config-epoch": config_epoch}


class Group:
    """The answer of each Sentinel; None: nothing until the test ends."""

    def __init__(self, **answers: Mapping[str, Any] | Exception | None) -> None:
        self.answers = answers
        self.end = threading.Event()
        self.sentinels = Sentinels("main", HOSTS, self.ask)

    def ask(self, host: str, _port: int) -> Mapping[str, Any]:
        answer = self.answers[host]
        if answer is None:
            self.end.wait(30)
            raise GONE
        if isinstance(answer, Exception):
            raise answer
        return answer

    def primary(self) -> str:
        host, port = self.sentinels.discover_master("main")
        assert port == 7000
        return host


def test_the_answer_of_the_newest_failover_wins() -> None:
    """One Sentinel was cut off meanwhile, with the old primary."""
    assert Group(a=state("old", 1), b=state("new", 2), c=state("old", 1)).primary() == "new"


def test_one_sentinel_is_enough() -> None:
    assert Group(a=GONE, b=GONE, c=state("one", 1)).primary() == "one"


def test_a_sentinel_that_hangs_does_not_hold_up_the_others() -> None:
    group = Group(a=None, b=state("one", 1), c=GONE)
    found: Queue[str] = Queue()
    threading.Thread(target=lambda: found.put(group.primary()), daemon=True).start()
    try:
        assert found.get(timeout=OTHERS_S + 5) == "one"
    finally:
        group.end.set()


def test_a_minority_does_not_lead_back_to_an_older_primary() -> None:
    group = Group(a=state("old", 1), b=state("new", 2), c=state("new", 2))
    assert group.primary() == "new"
    group.answers |= {"b": GONE, "c": GONE}
    assert group.primary() == "new"
    group.answers |= {"a": state("newer", 3)}
    assert group.primary() == "newer"


def test_a_majority_that_was_set_up_anew_counts_from_the_start() -> None:
    group = Group(a=state("one", 9), b=state("one", 9), c=GONE)
    assert group.primary() == "one"
    group.answers |= {"a": state("two", 0), "b": state("two", 0)}
    assert group.primary() == "two"


@pytest.mark.parametrize(
    ("answer", "next_step"),
    [
        (GONE, "Check that the Sentinels are running"),
        (exceptions.ResponseError("No such master with that name"), "Correct the service in redis.url"),
        (exceptions.ResponseError("unknown command 'SENTINEL'"), "not those of Redis"),
        (exceptions.AuthenticationError("Authentication required."), "Set redis.sentinel_username and"),
        (exceptions.TimeoutError("Timeout connecting to server"), "Check that the Sentinels are running"),
    ],
)
def test_without_a_primary_each_sentinel_is_named_with_its_error(answer: Exception, next_step: str) -> None:
    with pytest.raises(NoPrimary) as refused:
        Group(a=answer, b=answer, c=GONE).primary()
    assert next_step in refused.value.next_step
    text = str(answer).rstrip(".")
    assert all(part in refused.value.cause for part in (f"a:1: {text}", f"b:2: {text}", "c:3: Connection refused"))


@pytest.mark.parametrize("nonsense", [{}, {"ip": "x"}, {"ip": "x", "port": "y"}, {"ip": "x", "port": None}])
def test_an_answer_that_makes_no_sense_is_none(nonsense: dict[str, Any]) -> None:
    assert Group(a=nonsense, b=state("one", 1), c=nonsense).primary() == "one"
    with pytest.raises(NoPrimary):
        Group(a=nonsense, b=nonsense, c=nonsense).primary()
