"""The real estate of the tests: ZooKeeper, three bookies, two brokers and Redis."""

from collections.abc import Mapping
from pathlib import Path

from backends.settings import PulsarSettings
from benchmarks.estate.servers import EstateServers
from fairlane.stack.estate.shape import EstateShape

SHAPE = EstateShape(bookies=3, brokers=2)


class EstateKeeper(EstateServers):
    """The servers of one estate, by name: zookeeper, bookie-1 to bookie-3, broker-1 and broker-2."""

    def __init__(self, home: Path, cache: Path, env: Mapping[str, str], tenant: PulsarSettings) -> None:
        super().__init__(home, cache, env, tenant, SHAPE)
