"""The directories of the local stack: one for its data and logs, one for downloads that all checkouts share."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path


def default_home(env: Mapping[str, str]) -> Path:
    """Return FAIRLANE_HOME, else `fairlane` in the user's data directory."""
    return _directory(env, "FAIRLANE_HOME", "XDG_DATA_HOME", ".local/share")


def default_cache(env: Mapping[str, str]) -> Path:
    """Return FAIRLANE_CACHE, else `fairlane` in the user's cache directory."""
    return _directory(env, "FAIRLANE_CACHE", "XDG_CACHE_HOME", ".cache")


def _directory(env: Mapping[str, str], ours: str, xdg: str, fallback: str) -> Path:
    if env.get(ours):
        return Path(env[ours]).expanduser().absolute()
    base = Path(env[xdg]) if env.get(xdg) else Path.home() / fallback
    return base.absolute() / "fairlane"


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
        return self.root / "state.json"

    @property
    def lock_file(self) -> Path:
        return self.root / "lock"

    def make(self) -> None:
        """Create the directories, readable by this user only."""
        self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
        for part in (self.logs, self.pulsar, self.estate, self.redis):
            part.mkdir(exist_ok=True)
