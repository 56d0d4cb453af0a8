"""Calls that the public API refuses before it asks any server."""

from collections.abc import Callable

import pytest

from dispatcher.model.errors import InvalidInput, Refused
from dispatcher.model.task import PushTask
from producers.client import PushClient
from tests.unit.producers.test_fork import SETTINGS


@pytest.mark.parametrize(
    "use",
    [
        lambda client: client.tasks(),
        lambda client: client.globals(),
        lambda client: client.set_capacity(5),
        lambda client: client.submit(PushTask(app="shop", tier="low", message="Hi"), ["a"]),
    ],
)
def test_a_closed_client_says_so(use: Callable[[PushClient], object]) -> None:
    """It connected again to look at tasks; a submission was told to be repeated with the same id."""
    client = PushClient.connect(SETTINGS)
    client.close()
    client.close()
    with pytest.raises(Refused, match="This client is closed"):
        use(client)


def test_numbers_that_make_no_sense_are_refused() -> None:
    with PushClient.connect(SETTINGS) as client:
        with pytest.raises(InvalidInput, match="limit: is 0"):
            client.task_page(limit=0)
        with pytest.raises(InvalidInput, match="concurrency: is 0"):
            client.submit_many([], concurrency=0)
        with pytest.raises(InvalidInput, match="high: is '6'; it must be"):
            client.set_tiers(high="6", medium=3, low=1)  # type: ignore[arg-type]
        with pytest.raises(InvalidInput, match="limit: is '5'; it must be a whole number"):
            client.limit_app("shop", tasks="5")  # type: ignore[arg-type]
        with pytest.raises(InvalidInput, match="cap of app shop: is None; it must be a whole number"):
            client.cap_app("shop", None)  # type: ignore[arg-type]
