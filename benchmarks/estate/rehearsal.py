"""The estate that a benchmark starts and deletes again."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.estate.servers import EstateServers
from fairlane.settings import Settings
from fairlane.stack.estate.shape import EstateShape


@contextmanager
def rehearsal(settings: Settings, shape: EstateShape) -> Iterator[tuple["EstateServers", Settings]]:
    """Start an estate in a folder of its own, and yield it with settings that name it. Raises a StackError."""
    with TemporaryDirectory(prefix="fairlane-estate-") as folder:
        estate = EstateServers(Path(folder), settings.cache, os.environ, settings.pulsar, shape)
        try:
            yield estate, at(estate, settings, Path(folder))
        finally:
            estate.stop()


def at(estate: EstateServers, settings: Settings, home: Path) -> Settings:
    """Return the settings with the addresses of an estate."""
    here = estate.addresses
    pulsar = settings.pulsar.model_copy(update={"url": here.pulsar_url, "admin_url": here.pulsar_admin_url})
    redis = settings.redis.model_copy(update={"url": here.redis_url})
    of_estate = settings.estate.model_copy(update={"bookie_http": here.bookie_http})
    update = {"pulsar": pulsar, "redis": redis, "estate": of_estate, "home": home}
    return settings.model_copy(update=update)
