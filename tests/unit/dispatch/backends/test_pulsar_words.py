"""Pulsar's errors in Fairlane's words, positions as text, and how far a namespace is from what is wanted."""

import pulsar
import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends.addresses import Address
from backends.pulsar.admin import PulsarAdmin, _failure, _path
from backends.pulsar.client import Transient, error_of, failure_of, message_id_from, position_of, translated
from backends.pulsar.policies import LANE_POLICIES, SYSTEM_POLICIES, Policy, at_creation, differing
from backends.pulsar.publisher import _Group, _pieces
from backends.settings import PulsarSettings
from dispatcher.model.errors import FairlaneError, InvalidInput, NotFound, Refused, Unreachable

NUMBERS = st.integers(0, 2**40)


@pytest.mark.parametrize(
    ("raised", "kind"),
    [
        (pulsar.ConnectError, Transient),
        (pulsar.Timeout, Unreachable),
        (pulsar.BrokerPersistenceError, Transient),
        (pulsar.TopicNotFound, NotFound),
        (pulsar.AuthenticationError, Refused),
        (pulsar.AuthorizationError, Refused),
        (pulsar.ProducerBlockedQuotaExceededError, Refused),
        (pulsar.InvalidUrl, InvalidInput),
        (pulsar.ChecksumError, FairlaneError),
    ],
)
def test_an_exception_of_pulsars_says_what_was_tried_and_what_to_do(
    raised: type[Exception], kind: type[FairlaneError]
) -> None:
    with pytest.raises(kind) as caught, translated("read a topic"):
        raise raised
    assert type(caught.value) is kind
    assert "could not read a topic" in caught.value.cause
    assert raised.__name__ in caught.value.cause
    assert caught.value.next_step
    assert isinstance(caught.value.__cause__, raised)


def test_every_result_of_the_client_has_a_meaning() -> None:
    for name, result in pulsar.Result.__members__.items():
        failure = failure_of(result, "do it", None)
        assert (failure is None) == (name == "Ok")
        assert failure is None or str(error_of(name, "do it")) == str(failure)


def test_errors_of_others_pass() -> None:
    with pytest.raises(KeyError), translated("read a topic"):
        raise KeyError


@pytest.mark.parametrize(
    ("status", "kind"),
    [(401, Refused), (403, Refused), (404, NotFound), (409, Refused), (412, Refused), (500, Unreachable)],
)
def test_an_http_status_says_whose_fault_it_is(status: int, kind: type[FairlaneError]) -> None:
    address = Address("http://there:1", "from the environment")
    error = _failure(address, "GET it", status, b'{"reason": "because\\n of a stack trace"}')
    assert isinstance(error, kind)
    assert error.cause == f"Pulsar at http://there:1 (from the environment): GET it was answered {status}: because."
    assert _failure(address, "GET it", status, b"").cause.endswith("no reason given.")


def test_a_topics_place_in_the_rest_interface() -> None:
    assert _path("persistent://fairlane/tasks-01/a b/c") == "persistent/fairlane/tasks-01/a b/c"
    assert _path("persistent://fairlane/tasks-01/50%") == "persistent/fairlane/tasks-01/50%25"


# ---------------------------------------------------------------- positions
@given(NUMBERS, NUMBERS, st.integers(-1, 99_999))
def test_a_position_names_its_message_and_nothing_else(ledger: int, entry: int, batch: int) -> None:
    message = message_id_from(position_of(pulsar.MessageId(-1, ledger, entry, batch)))
    assert (message.ledger_id(), message.entry_id(), message.batch_index()) == (ledger, entry, batch)


@given(st.lists(st.tuples(NUMBERS, NUMBERS, st.integers(-1, 99_999)), min_size=2))
def test_positions_sort_as_text_in_topic_order(ids: list[tuple[int, int, int]]) -> None:
    positions = [position_of(pulsar.MessageId(-1, *parts)) for parts in sorted(ids)]
    assert positions == sorted(positions)


def test_no_position_is_the_beginning() -> None:
    assert message_id_from(None) == pulsar.MessageId.earliest


@pytest.mark.parametrize("text", ["", "1:2", "a:b:c", "1:2:3:4"])
def test_a_text_that_is_no_position_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput):
        message_id_from(text)


# ---------------------------------------------------------------- policies
@pytest.mark.parametrize("policies", [LANE_POLICIES, SYSTEM_POLICIES])
def test_a_namespace_made_by_us_differs_in_nothing(policies: tuple[Policy, ...]) -> None:
    made = at_creation(policies, 4)
    assert made["bundles"] == {"numBundles": 4}
    assert list(differing(policies, made)) == []


def test_fields_that_brokers_add_are_left_alone() -> None:
    found = at_creation(LANE_POLICIES, 4) | {"unknown": 1}
    found["delayed_delivery_policies"] = {**found["delayed_delivery_policies"], "maxDeliveryDelayInMillis": 0}
    assert list(differing(LANE_POLICIES, found)) == []


@pytest.mark.parametrize("policy", SYSTEM_POLICIES, ids=lambda policy: policy.field)
def test_each_policy_that_is_missing_or_changed_is_found(policy: Policy) -> None:
    found = at_creation(SYSTEM_POLICIES, 4)
    missing = {name: value for name, value in found.items() if name != policy.field}
    assert list(differing(SYSTEM_POLICIES, missing)) == [policy]
    assert list(differing(SYSTEM_POLICIES, {**found, policy.field: None})) == [policy]


# ---------------------------------------------------------------- pieces
@given(st.lists(st.integers(0, 700_000), min_size=1, max_size=400))
def test_pieces_cover_all_bodies_in_order_and_are_small(sizes: list[int]) -> None:
    pieces = list(_pieces([bytes(size) for size in sizes], _Group(lambda _error: None)))
    assert [piece.start for piece in pieces] == [0, *(piece.end for piece in pieces[:-1])]
    assert [piece.final for piece in pieces] == [False] * (len(pieces) - 1) + [True]
    for piece in pieces:
        assert piece.size == sum(sizes[piece.start : piece.end])
        assert 1 <= piece.count <= 100
        assert piece.count == 1 or piece.size <= 1 << 20


def test_an_admin_address_is_told_without_its_password() -> None:
    admin = PulsarAdmin(PulsarSettings(admin_url="http://me:hush@127.0.0.1:1/", connect_timeout_s=0.1))
    with pytest.raises(Unreachable) as caught:
        admin.version()
    assert "http://me:********@127.0.0.1:1/" in str(caught.value)
    assert "hush" not in str(caught.value)
    admin.close()
