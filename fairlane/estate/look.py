"""Looks at the estate that the settings name."""

from contextlib import closing
from typing import Self

from backends.pulsar.client import topics
from backends.pulsar.estate.questions import Depth
from backends.pulsar.estate.reader import EstateReader
from dispatcher.model.errors import FairlaneError
from estate.cluster import Estate
from estate.guarded import Guarded
from estate.node_life import decode_nodes
from estate.reading import estate_of
from estate.rules.expectations import Expectations
from fairlane.settings import Settings


class EstateLooker:
    """Looks at one estate as often as it is asked to."""

    def __init__(self, settings: Settings) -> None:
        """Raises NotConfigured; Unreachable if the local stack's Pulsar has ended."""
        self._reader = EstateReader(settings.pulsar, topics(settings.pulsar), settings.estate.bookie_http)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._reader.close()

    def look(self, depth: Depth = Depth.FIGURES) -> Estate:
        """Return the facts of one look. A node that does not answer raises nothing. Raises InvalidInput."""
        return estate_of(self._reader.read(depth))


def expectations(settings: Settings) -> Expectations:
    """Return what the rules need to know of the settings."""
    estate = settings.estate
    return Expectations(
        guarded=estate.guard,
        racks=estate.racks,
        offload=estate.offload is not None,
        system_namespace=topics(settings.pulsar).system_namespace,
        system_brokers=estate.system_brokers,
        system_bookies=estate.system_bookies,
    )


def read_guarded(settings: Settings) -> Guarded:
    """Return the elected guard and its states of nodes; why not, if Redis does not answer. Raises nothing."""
    from backends.redis.estate.guard_states import GuardStates
    from backends.redis.view import open_view

    try:
        with closing(open_view(settings.redis)) as view:
            states = GuardStates(view)
            guard, content = states.guard(), states.read()
        return Guarded(guard, {} if content is None else decode_nodes(content))
    except FairlaneError as error:
        return Guarded(failure=error.cause)
