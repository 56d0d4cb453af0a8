"""Provisioning of the local stack: a broker that has just started answers some requests with errors."""

import pytest

from dispatcher.model.errors import Refused, Unreachable
from fairlane.stack.launch import once_reached


class Broker:
    """Raises these errors, one per call, and then answers."""

    def __init__(self, *errors: Exception) -> None:
        self.errors = list(errors)

    def provision(self) -> str:
        if self.errors:
            raise self.errors.pop(0)
        return "provisioned"


def test_a_broker_that_is_not_ready_is_asked_again() -> None:
    assert once_reached(Broker(Unreachable("503"), Unreachable("503")).provision) == "provisioned"


def test_a_broker_that_stays_unreachable_is_reported() -> None:
    with pytest.raises(Unreachable):
        once_reached(Broker(*[Unreachable("503")] * 9).provision, within_s=0.0)


def test_a_refusal_is_reported_at_once() -> None:
    broker = Broker(Refused("not allowed"))
    with pytest.raises(Refused):
        once_reached(broker.provision)
    assert broker.provision() == "provisioned"
