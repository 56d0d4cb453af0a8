"""A bookie is made read-only only while enough others are writable, counted in the same step, by the elected guard."""

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from typing import Any

import pytest

from dispatcher.model.errors import InvalidInput, Refused, Unreachable
from estate.facts import bookie_switch
from estate.facts.bookie_switch import BookieSwitch
from estate.facts.node_probes import BookieProbe
from estate.guard.actions import NodeActions
from estate.rules.node_life import NodeKind
from tests.unit.dispatch.backends.estate_site import serving

NAMES = ["127.0.0.2:3181", "127.0.0.3:3181", "127.0.0.4:3181", "127.0.0.5:3181"]
FIRST = NAMES[0]


def no_drain(broker: str, _must_stop: Callable[[], bool]) -> None:
    """Brokers are not drained here."""
    raise Refused(f"broker {broker} has 2 bundles left.")


@dataclass
class Site:
    """Four bookies, whose list of writable ones follows what they are told."""

    writable: set[str] = field(default_factory=lambda: set(NAMES))
    put: list[tuple[str, bool]] = field(default_factory=list)
    also: Callable[[], None] | None = None
    """Called together with the next change."""
    answer: Any = None
    """Given instead of making the change."""
    lists: Any = None
    """Given instead of the list."""
    stale: dict[str, set[str]] = field(default_factory=dict)
    """Lists that are not up to date, by the bookie that gives them."""
    port: int = 0
    elected: bool = True

    def bookie(self, name: str) -> dict[str, Any]:
        return {
            "bookie/is_ready": "OK",
            "bookie/list_bookies?type=rw": lambda _: self.listed(name),
            "PUT bookie/state/readonly": lambda body: self.change(name, read_only=body["readOnly"]),
        }

    def listed(self, name: str) -> Any:
        return dict.fromkeys(self.stale.get(name, self.writable)) if self.lists is None else self.lists

    def change(self, name: str, *, read_only: bool) -> Any:
        self.put.append((name, read_only))
        if self.answer is not None:
            return self.answer
        (self.writable.discard if read_only else self.writable.add)(name)
        also, self.also = self.also, None
        if also is not None:
            also()
        return {"readOnly": read_only}

    @property
    def template(self) -> str:
        return f"http://{{host}}:{self.port}"

    def actions(self, template: str | None = None) -> NodeActions:
        return NodeActions(BookieSwitch(template or self.template), no_drain, lambda: self.elected)

    def isolate(self, needed: int | None = 3) -> None:
        self.actions().isolate(NodeKind.BOOKIE, FIRST, NAMES, needed)


@pytest.fixture
def site() -> Iterator[Site]:
    here = Site()
    with ExitStack() as servers:
        for name in NAMES:
            served = servers.enter_context(serving(here.bookie(name), name.partition(":")[0], here.port))
            here.port = int(served.rpartition(":")[2])
        yield here


def test_a_bookie_is_made_read_only_and_writable_again(site: Site) -> None:
    site.isolate()
    assert site.writable == {*NAMES[1:]}
    site.actions().release(NodeKind.BOOKIE, FIRST)
    assert site.writable == {*NAMES}


@pytest.mark.parametrize(
    ("ended", "needed", "reason"),
    [
        ("none", 4, "3 writable bookies would be left of at least 4"),
        ("none", None, "ensemble sizes"),
        (NAMES[3], 3, "2 writable bookies would be left"),
        (FIRST, 3, "not writable any more"),
    ],
)
def test_a_bookie_stays_if_too_few_would_be_left_or_it_ended_since_the_look(
    site: Site, ended: str, needed: int | None, reason: str
) -> None:
    site.writable.discard(ended)
    with pytest.raises(Refused, match=reason):
        site.isolate(needed)
    assert site.put == []


def test_the_shortest_of_all_lists_counts(site: Site) -> None:
    site.stale[NAMES[1]] = set(NAMES)
    site.writable.discard(NAMES[3])
    with pytest.raises(Refused, match="2 writable bookies would be left"):
        site.isolate()


def test_a_bookie_that_ends_at_the_same_moment_has_this_one_put_back(site: Site) -> None:
    site.also = lambda: site.writable.discard(NAMES[3])
    with pytest.raises(Refused, match="2 writable bookies would be left"):
        site.isolate()
    assert site.put == [(FIRST, True), (FIRST, False)]
    assert FIRST in site.writable


def test_a_guard_that_is_not_elected_any_more_changes_nothing(site: Site) -> None:
    site.elected = False
    with pytest.raises(Refused, match="another one may be elected"):
        site.isolate()
    with pytest.raises(Refused, match="another one may be elected"):
        site.actions().release(NodeKind.BOOKIE, FIRST)
    with pytest.raises(Refused, match="another one may be elected"):
        site.actions().isolate(NodeKind.BROKER, "k:1", NAMES, 3)
    assert site.put == []


def test_a_bookie_that_answers_500_is_known_not_to_be_isolated(site: Site) -> None:
    site.answer = 500
    with pytest.raises(Refused, match="answered 500"):
        site.isolate()


def test_a_bookie_that_hangs_may_have_been_isolated(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bookie_switch, "ANSWER_S", 0.2)
    site.answer = ended = threading.Event()
    with pytest.raises(Unreachable, match="no answer within"):
        site.isolate()
    ended.set()


@pytest.mark.parametrize("lists", [500, "no list", [1, 2]])
def test_bookies_that_do_not_say_who_is_writable_are_not_isolated(site: Site, lists: object) -> None:
    site.lists = lists
    with pytest.raises(Refused, match="No bookie says"):
        site.isolate()
    assert site.put == []


def test_where_nothing_listens_nothing_is_done(site: Site) -> None:
    actions = site.actions("http://{host}:1")
    with pytest.raises(Refused, match="No bookie says"):
        actions.isolate(NodeKind.BOOKIE, FIRST, NAMES, 3)
    with pytest.raises(Refused, match="cannot be connected to"):
        actions.release(NodeKind.BOOKIE, FIRST)


@pytest.mark.parametrize("template", ["", "no address", "http://{port", "http://{host}:x"])
def test_a_wrong_address_is_refused_at_the_start(template: str) -> None:
    with pytest.raises(InvalidInput, match=r"estate\.bookie_http"):
        BookieSwitch(template)


def test_without_an_address_no_bookie_can_be_changed() -> None:
    actions = NodeActions(None, no_drain, lambda: True)
    with pytest.raises(Refused, match="No bookie can be made read-only"):
        actions.isolate(NodeKind.BOOKIE, FIRST, NAMES, 3)


def test_a_broker_that_keeps_bundles_is_not_drained() -> None:
    actions = NodeActions(None, no_drain, lambda: True)
    with pytest.raises(Refused, match="2 bundles left"):
        actions.isolate(NodeKind.BROKER, "k:1", NAMES, 3)


def test_a_bookie_is_probed_by_its_interface(site: Site) -> None:
    with closing(BookieProbe(site.template, FIRST)) as probe:
        assert 0 < probe.once() < 2
    with closing(BookieProbe("http://{host}:1", FIRST)) as probe, pytest.raises(Unreachable, match="no answer"):
        probe.once()
