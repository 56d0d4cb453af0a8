"""Keys: what is stored of them, what fits them, and which rights they may have."""

import pytest

from dispatcher.access.keys import AccessKey, id_and_secret
from dispatcher.access.principal import Scope, scopes_of
from dispatcher.model.errors import InvalidInput, Malformed

READ = frozenset({Scope.READ})


def test_new_key_is_shown_once_and_stored_as_its_digest() -> None:
    token, id_, key = AccessKey.create("shop", READ, now_ms=5)
    parts = id_and_secret(token)
    assert parts is not None
    assert parts[0] == id_
    assert parts[1] not in key.text
    assert key.fits(parts[1])
    assert AccessKey.parse(key.text) == key


def test_secret_has_256_bits_and_differs_each_time() -> None:
    tokens = {AccessKey.create("", READ, 0).token for _ in range(20)}
    assert len(tokens) == 20
    assert {len(token) for token in tokens} == {len("flk_") + 12 + 1 + 43}


@pytest.mark.parametrize("wrong", ["", "x" * 43, "A" * 44, "é" * 43])
def test_other_secret_does_not_fit(wrong: str) -> None:
    assert not AccessKey.create("", READ, 0).key.fits(wrong)


@pytest.mark.parametrize(
    "token", ["", "flk_", "flk_0_1", "Bearer x", "flk_00000000000g_" + "a" * 43, "flk_000000000000_" + "a" * 43 + "\n"]
)
def test_text_that_is_no_key_has_no_parts(token: str) -> None:
    assert id_and_secret(token) is None


def test_key_is_live_until_its_end_or_its_revocation() -> None:
    key = AccessKey.create("", READ, now_ms=0, ends_ms=100).key
    assert [key.state(now_ms) for now_ms in (0, 99, 100)] == ["live", "live", "ended"]
    assert key.revoked(50).state(51) == "revoked"
    assert key.revoked(50).revoked(60).revoked_ms == 50


def test_operator_key_is_for_all_apps() -> None:
    with pytest.raises(InvalidInput, match="operator is for all apps"):
        AccessKey.create("shop", frozenset({Scope.OPERATOR}), 0)


def test_app_with_two_dashes_in_its_name_gets_no_key() -> None:
    with pytest.raises(InvalidInput, match="contains --"):
        AccessKey.create("a--b", READ, 0)


def test_operator_may_do_everything_and_others_what_they_are_given() -> None:
    operator = AccessKey.create("", frozenset({Scope.OPERATOR}), 0).key.principal("k")
    assert all(operator.may(scope) for scope in Scope)
    reader = AccessKey.create("shop", READ, 0).key.principal("k")
    assert [scope for scope in Scope if reader.may(scope)] == [Scope.READ]


@pytest.mark.parametrize("names", [[], ["read", "write"], [""]])
def test_unknown_scopes_are_refused_with_those_there_are(names: list[str]) -> None:
    with pytest.raises(InvalidInput, match="submit, read, control, operator"):
        scopes_of(names)


@pytest.mark.parametrize("text", ["", "{}", "[1]", '{"scopes":["root"],"digest":"","created_ms":0}', "\ud800"])
def test_damaged_stored_key_is_malformed(text: str) -> None:
    with pytest.raises(Malformed):
        AccessKey.parse(text)


def test_caller_fits_into_a_record() -> None:
    principal = AccessKey.create("shop", READ, 0).key.principal("k\n\x00" + "x" * 200)
    caller = principal.caller("r\u202e" * 200)
    assert caller.by.startswith("key:kxx")
    assert (len(caller.by), len(caller.request)) == (100, 100)
    assert caller.by.isprintable()
    assert caller.request.isprintable()
