"""The directory of one local stack: data, logs, state."""

from dataclasses import dataclass
from pathlib import Path

from fairlane.local_stack import STATE_FILE


@dataclass(frozen=True)
class Home:
    """The paths of one local stack."""

    root: Path

    @property
    def logs(self) -> Path:
        return self.root / "logs"

    @property
    def pulsar(self) -> Path:
        return self.root / "pulsar"

    @property
    def estate(self) -> Path:
        """Data of ZooKeeper, bookies and brokers, which exist beside the data of the standalone Pulsar."""
        return self.root / "estate"

    @property
    def redis(self) -> Path:
        return self.root / "redis"

    @property
    def state_file(self) -> Path:
        return self.root / STATE_FILE

    @property
    def lock_file(self) -> Path:
        return self.root / "lock"

    def make(self) -> None:
        """Create the directories, readable by this user only."""
        self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
        for part in (self.logs, self.pulsar, self.estate, self.redis):
            part.mkdir(exist_ok=True)
