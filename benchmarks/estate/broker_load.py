"""The time that it takes to learn the load of all brokers of an estate."""

import statistics
import time

from backends.pulsar.estate.bundles import BundleAdmin
from benchmarks.estate.servers import EstateServers
from dispatcher.model.errors import FairlaneError
from fairlane.settings import Settings
from fairlane.stack.estate.shape import EstateShape

BROKERS = 3
LOOKS = 20


def run(estate: EstateServers, settings: Settings) -> dict[str, float]:
    """Add brokers if there are fewer; return the times of looks at the load and the bundles of all of them."""
    bookies = estate.estate().shape.bookies
    estate.start_missing(EstateShape(bookies=bookies, brokers=BROKERS))
    with BundleAdmin(settings.pulsar) as admin:
        times = [_timed(admin) for _ in range(LOOKS)]
    return {"brokers": BROKERS, "median_ms": statistics.median(times), "longest_ms": max(times)}


def _timed(admin: BundleAdmin) -> float:
    began_s = time.monotonic()
    answers = admin.read()
    took_ms = (time.monotonic() - began_s) * 1000
    if len(answers) != BROKERS or any(answer.failure or answer.cpu is None for answer in answers):
        raise FairlaneError(f"Not all brokers told their load: {[answer.failure for answer in answers]}.")
    return took_ms
