"""The directories of the local stack: one for its data and logs, one for downloads that all checkouts share."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from dispatcher.model.errors import InvalidInput


def home_folder(env: Mapping[str, str], given: Path | None = None) -> Path:
    """Return the given directory, else FAIRLANE_HOME, else `fairlane` in the user's data directory.

    Raises InvalidInput if the user has no home.
    """
    return _directory(env, given, "FAIRLANE_HOME", "XDG_DATA_HOME", ".local/share")


def cache_folder(env: Mapping[str, str], given: Path | None = None) -> Path:
    """Return the given directory, else FAIRLANE_CACHE, else `fairlane` in the user's cache directory.

    Raises InvalidInput if the user has no home.
    """
    return _directory(env, given, "FAIRLANE_CACHE", "XDG_CACHE_HOME", ".cache")


def _directory(env: Mapping[str, str], given: Path | None, ours: str, xdg: str, fallback: str) -> Path:
    try:
        if given or env.get(ours):
            return Path(given or env[ours]).expanduser().absolute()
        base = Path(env[xdg]) if env.get(xdg) else Path.home() / fallback
        return base.absolute() / "fairlane"
    except (RuntimeError, OSError) as error:  # a user without a home, a relative path in a deleted directory
        reason = str(error).removesuffix(".")
        raise InvalidInput(f"{ours} is not set, or relative: {reason}.", f"Set {ours} to an absolute path.") from error


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
