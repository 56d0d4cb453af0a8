"""All faults on one estate, one after the other."""

from collections.abc import Callable, Sequence

from benchmarks.estate import broker_load, faults
from benchmarks.estate.rehearsal import rehearsal
from fairlane.settings import Settings
from fairlane.stack.estate.shape import EstateShape

SHAPE = EstateShape(bookies=3, brokers=2)


def run(settings: Settings, names: Sequence[str], seed: int, say: Callable[[str], None]) -> dict[str, float]:
    """Return the figures of these faults, in the order given."""
    figures: dict[str, float] = {}
    with rehearsal(settings, SHAPE) as (estate, here):
        for name in names:
            fault = broker_load.run(estate, here) if name not in faults.FAULTS else faults.run(estate, here, name, seed)
            say(f"{name}: " + ", ".join(f"{key} {value:.3g}" for key, value in fault.items()))
            figures |= {f"{name} {key}": value for key, value in fault.items()}
    return figures
