"""Jobs on tables without servers: reconciliation, dry runs; settings that make no sense to them."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from backends.addresses import Address
from backends.settings import RedisSettings
from dispatcher.model.errors import InvalidInput, Unreachable
from fairlane.settings import Settings
from spark_jobs.cli.handlers.ingest import _forms, _options
from spark_jobs.cli.handlers.reconcile import _compared, _with_live


@pytest.mark.parametrize(("url", "reason"), [
    ("redis://127.0.0.1:1/0", "Redis at redis://127.0.0.1:1/0 cannot be"),
    (Address("redis://127.0.0.1:1/0", "of the local stack", stopped=True), "Redis of the local stack"),
    (None, "Pulsar and Redis are not configured"),
])  # fmt: skip
def test_without_redis_the_recorded_outcomes_stand_alone_and_it_is_said_once(
    capsys: pytest.CaptureFixture[str], url: str | None, reason: str
) -> None:
    sums: Any = [SimpleNamespace(task="one"), SimpleNamespace(task="two")]
    found = _with_live(Settings(redis=RedisSettings(url=url)), sums)
    assert found == [(sums[0], None), (sums[1], None)]
    assert {_compared(one, live) for one, live in found} == {"unknown"}
    assert capsys.readouterr().err.count(f"The live counters cannot be read: {reason}") == 1


def test_a_dry_run_needs_no_servers_of_a_local_stack_that_have_ended(tmp_path: Path) -> None:
    file = tmp_path / "sale.yaml"
    file.write_text("{id: sale, app: shop, tier: high, channel: log, message: Sale}")
    ended = Address("redis://127.0.0.1:1/0", "of the local stack", stopped=True)
    settings = Settings(redis=RedisSettings(url=ended))
    given: dict[str, Any] = {"audience": "people.csv", "table_format": None, "reader": (), "tables": tmp_path}
    given |= {"suppress": (), "invalid_targets": True, "names": (), "max_refused": 0.05, "min_matched": 0.5}
    assert _options(settings, file, given, needs_servers=False).task.servers.redis.url is None
    with pytest.raises(Unreachable, match="Redis of the local stack"):
        _options(settings, file, given, needs_servers=True)


def test_a_form_that_is_no_regular_expression_is_named() -> None:
    assert _forms({"push": "[a-f]+"}) == {"push": "[a-f]+"}
    with pytest.raises(InvalidInput, match="token_forms: the entry for sms is not a regular expression"):
        _forms({"push": "[a-f]+", "sms": "[a-"})
