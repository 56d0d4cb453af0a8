"""A worker's claims last until its last call is over, however slow a channel may be."""

import pytest

from consumers.delivery.courier import ChannelCourier
from fairlane.settings import Settings
from fairlane.worker.worker import engine_settings
from tests.unit.dispatch.consumers.office import Channel
from tests.virtual_clock import VirtualClock


@pytest.mark.parametrize("timeouts_s", [(10.0,), (1.0, 90.0), (90.0, 1.0), (0.5,)])
def test_a_call_begun_at_the_end_of_its_lease_is_over_before_its_claim_ends(timeouts_s: tuple[float, ...]) -> None:
    courier = ChannelCourier({str(n): Channel(timeout_s=limit) for n, limit in enumerate(timeouts_s)}, VirtualClock())
    made = engine_settings("w", Settings(), courier)
    courier.stop(0.0)
    assert made.claim_ms > made.lease_ms + max(timeouts_s) * 1_000
