"""The canonical form of a target, and every place that compares targets by it."""

import enum
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dispatcher.channels.submission.address import BLANKS, address_form
from dispatcher.channels.submission.target_check import TargetCheck
from dispatcher.model.task import Target
from dispatcher.wire.envelope import encode_message
from producers.files.duplicates import DuplicateFilter
from producers.submit.validation import check_each, check_slab

TOKEN = "6bec8426e2eabe59e406f152e388f07bcf24b0592a0665843d72cd3512062f08"
FCM = "dW5pdC10ZXN0:APA91bFakeToken_Of-Twenty"


class Text(str):
    """A subclass whose str() is not its text."""

    __slots__ = ()

    def __str__(self) -> str:
        return f"Text({super().__str__()})"


class Mixed(str, enum.Enum):  # noqa: UP042  # whose str() is the member's name
    TOKEN = TOKEN


class Named(enum.StrEnum):
    TOKEN = TOKEN


class Plain(enum.Enum):
    TOKEN = TOKEN
    NUMBER = 7


SPELLINGS: list[tuple[str, Any, Any]] = [
    ("apns", TOKEN.upper(), TOKEN),
    ("apns", TOKEN[:20].upper() + TOKEN[20:], TOKEN),
    ("apns", f" {TOKEN}", TOKEN),
    ("apns", f"{TOKEN}\r\n", TOKEN),
    ("apns", f"\ufeff{TOKEN}\u200b", TOKEN),  # a mark at the beginning of a file, a web page's invisible space
    ("apns", f"\t{TOKEN}\u00a0 ", TOKEN),
    ("apns", Text(TOKEN.upper()), TOKEN),
    ("fcm", FCM, FCM),  # whose case counts
    ("fcm", f"{FCM} ", FCM),
    ("http", "Ann@Example.org", "Ann@Example.org"),
    ("http", " Straße 1\u3000", "Straße 1"),
    ("mine", Text("device-1"), "device-1"),
    ("mine", np.str_("device-1 "), "device-1"),
    ("mine", Mixed.TOKEN, TOKEN),
    ("mine", Named.TOKEN, TOKEN),
    ("mine", Plain.TOKEN, TOKEN),
    ("mine", Plain.NUMBER, Plain.NUMBER),  # refused, as any other type
    ("mine", b"device-1", b"device-1"),
    ("mine", "  ", ""),
]


@pytest.mark.parametrize(("channel", "given_target", "canonical"), SPELLINGS)
def test_a_target_has_one_spelling_by_the_rules_of_its_channel(channel: str, given_target: Any, canonical: Any) -> None:
    form = address_form(channel)
    assert form.of(given_target) == canonical
    assert type(form.of(given_target)) is type(canonical)
    assert form.of(form.of(given_target)) == canonical


@pytest.mark.parametrize("wrap", [lambda one: one, Target, lambda one: (one, None)], ids=["text", "Target", "pair"])
def test_every_spelling_is_accepted_as_one_target_that_can_be_encoded(wrap: Any) -> None:
    spellings = [one for channel, one, canonical in SPELLINGS if channel == "apns" and canonical == TOKEN]
    form, check = address_form("apns"), TargetCheck.of("apns", {"body": "Hi"})
    audience = [wrap(one) for one in [TOKEN, *spellings, Mixed.TOKEN, Named.TOKEN, Plain.TOKEN, np.str_(TOKEN)]]
    accepted, refusals = check_slab(audience, lambda index: index, check, form)
    assert (refusals, set(accepted.addresses)) == ([], {TOKEN})
    assert encode_message({"targets": accepted.addresses})
    assert DuplicateFilter("remove")(accepted).addresses == [TOKEN]


def test_addresses_of_a_subclass_of_str_make_the_same_envelope() -> None:
    accepted, refusals = check_slab([Text(FCM), np.str_(TOKEN)], int, TargetCheck.of("mine", {}))
    assert (refusals, accepted.text) == ([], f"{FCM} {TOKEN} ".encode())
    assert encode_message({"targets": accepted.addresses}) == encode_message({"targets": [FCM, TOKEN]})


@given(st.lists(st.text("abcXYZ019-_é ß\u200b\t", max_size=6) | st.sampled_from([TOKEN, TOKEN.upper()])))
@pytest.mark.parametrize("form", [address_form("apns"), address_form("mine")])
def test_the_check_of_a_slab_spells_as_the_check_of_each_target(form: Any, items: list[object]) -> None:
    assert check_slab(items, int, None, form) == check_each(items, int, None, form)


def test_all_white_space_is_removed_around_a_target() -> None:
    assert {chr(code) for code in range(0x110000) if chr(code).isspace()} < set(BLANKS)
