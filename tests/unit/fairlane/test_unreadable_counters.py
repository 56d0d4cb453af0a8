"""Reconciliation when the live counters cannot be read; settings that make no sense to a table's job."""

from types import SimpleNamespace
from typing import Any

import pytest

from backends.settings import RedisSettings
from dispatcher.model.errors import InvalidInput
from fairlane.cli.tables.ingest import _forms
from fairlane.cli.tables.reconcile import _compared, _with_live
from fairlane.settings import Settings


def test_without_redis_the_recorded_outcomes_stand_alone_and_it_is_said_once(
    capsys: pytest.CaptureFixture[str],
) -> None:
    sums: Any = [SimpleNamespace(task="one"), SimpleNamespace(task="two")]
    found = _with_live(Settings(redis=RedisSettings(url="redis://127.0.0.1:1/0")), sums)
    assert found == [(sums[0], None), (sums[1], None)]
    assert {_compared(one, live) for one, live in found} == {"unknown"}
    assert (
        capsys.readouterr().err.count("The live counters cannot be read: Redis at redis://127.0.0.1:1/0 cannot be") == 1
    )


def test_a_form_that_is_no_regular_expression_is_named() -> None:
    assert _forms({"push": "[a-f]+"}) == {"push": "[a-f]+"}
    with pytest.raises(InvalidInput, match="token_forms: the entry for sms is not a regular expression"):
        _forms({"push": "[a-f]+", "sms": "[a-"})
