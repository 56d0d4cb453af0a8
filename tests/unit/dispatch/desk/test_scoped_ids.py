"""Ids of tasks inside the service, and as the keys of an app see them."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dispatcher.model.errors import InvalidInput
from dispatcher.wire.topics import NAME_PATTERN, TASK_PATTERN
from producers.desk.scoped_ids import ScopedIds, id_of_key

SHOP = ScopedIds("shop")
APPS = st.from_regex(NAME_PATTERN, fullmatch=True).filter(lambda app: "--" not in app)
IDS = st.from_regex(TASK_PATTERN, fullmatch=True)


def test_id_that_a_key_gives_is_inside_that_of_its_app() -> None:
    assert SHOP.new("sale") == SHOP.inside("sale") == "shop--sale"
    assert SHOP.shown("shop--sale") == "sale"


def test_task_that_no_key_submitted_has_its_id_behind_a_tilde() -> None:
    assert SHOP.shown("sale") == "~sale"
    assert SHOP.inside("~sale") == "sale"
    assert SHOP.shown("shop---x") == "~shop---x", "no key can have made it"


@given(inside=IDS, app=APPS)
def test_id_that_is_shown_names_the_same_task(inside: str, app: str) -> None:
    ids = ScopedIds(app)
    assert ids.inside(ids.shown(inside)) == inside


@given(app=APPS, other=APPS, id_=IDS, other_id=IDS)
def test_two_apps_never_make_the_same_id(app: str, other: str, id_: str, other_id: str) -> None:
    try:
        made, other_made = ScopedIds(app).new(id_), ScopedIds(other).new(other_id)
    except InvalidInput:
        return
    assert (made == other_made) == ((app, id_) == (other, other_id))


def test_ids_of_apps_that_end_with_a_dash_are_their_own() -> None:
    assert ScopedIds("shop-").new("x") == "shop---x"
    with pytest.raises(InvalidInput, match="begin with a letter or digit"):
        SHOP.new("-x")


@pytest.mark.parametrize("id_", ["", "~x", "-x", "a b", "<script>", "\u202ex", "a\n", "x" * 95, "é", "\udc80", "a/b"])
def test_id_that_no_task_of_the_app_may_have_is_refused_with_the_rule(id_: str) -> None:
    with pytest.raises(InvalidInput, match="ids of app shop are 1 to 94 of A-Z"):
        SHOP.new(id_)


def test_longest_id_fits() -> None:
    assert len(SHOP.new("x" * 94)) == 100
    assert re.fullmatch(TASK_PATTERN, ScopedIds("a" * 64).new(id_of_key("a" * 64, "any")))


def test_operator_sees_internal_ids() -> None:
    ids = ScopedIds("")
    assert ids.new("shop--sale") == ids.inside("shop--sale") == ids.shown("shop--sale") == "shop--sale"
    assert ids.in_text("Task shop--sale has ended.", {"shop--sale": "sale"}) == "Task shop--sale has ended."


def test_texts_name_ids_as_the_key_does() -> None:
    text = "Task shop--sale is paused; submit it with id='shop--sale'. See shop--sale.replay-1 and task old."
    shown = "Task sale is paused; submit it with id='sale'. See sale.replay-1 and task ~old."
    assert SHOP.in_text(text, {"old": "~old"}) == shown
    assert SHOP.in_text("workshop--x, ~shop--y and shop-- ", {}) == "workshop--x, ~shop--y and shop-- "


def test_id_of_an_idempotency_key_follows_from_app_and_key() -> None:
    assert id_of_key("shop", "a b") == id_of_key("shop", "a b")
    given = [("shop", "a"), ("news", "a"), ("shop", "b"), ("shop", "é\udc80")]
    assert len({id_of_key(app, key) for app, key in given}) == len(given)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Redis at redis://r:6379/0 (of the local stack) is gone: r:6379.", "Redis does not answer."),
        ("Task shop--sale is stored in Pulsar, but not yet in Redis: Redis at redis://r:6379 did not answer in time.",
         "Task sale is stored in Pulsar, but not yet in Redis: Redis does not answer."),
        ("Pulsar at https://a:8443: GET persistent/t got no answer: timed out.", "Pulsar does not answer."),
        ("Task shop--sale is being submitted by host-1.lan:42 since 2026-01-31 08:00:00 UTC.",
         "Task sale is being submitted by another process since 2026-01-31 08:00:00 UTC."),
    ],
)  # fmt: skip
def test_text_for_an_app_names_no_place_inside(text: str, shown: str) -> None:
    assert SHOP.in_text(text, {"shop--sale": "sale"}) == shown
    assert ScopedIds("").in_text(text, {}) == text
