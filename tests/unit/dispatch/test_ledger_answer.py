"""An answer of the ledger's that is none is told as a defect."""

from types import SimpleNamespace

import pytest

from dispatcher.model.errors import FairlaneError
from dispatcher.wire.topics import Topics
from quotas.ledger import RedisLedger
from tests.contract.ledger_worlds import request


def test_an_answer_that_cannot_be_read_is_a_defect() -> None:
    scripts = SimpleNamespace(call=lambda *_: b"\xc1")
    view = SimpleNamespace(scripts=SimpleNamespace(of=lambda _: scripts), keys=SimpleNamespace(prefix="p"))
    with pytest.raises(FairlaneError, match="cannot be read") as raised:
        RedisLedger(view, Topics()).lease(request(1))  # type: ignore[arg-type]
    assert raised.value.next_step == "Report this as a defect."
