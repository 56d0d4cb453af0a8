"""Times in the time zone of this machine."""

from datetime import UTC, datetime

from dispatcher.model.values import moment


def local_now() -> datetime:
    """Return the present time in the time zone of this machine."""
    return datetime.now(UTC).astimezone()


def local_moment(wall_ms: float) -> str:
    """Return the time in the zone of this machine: 14:05:10, with the date if it is not today."""
    return moment(wall_ms, local_now())


def zone_note() -> str:
    """Return a note that names the time zone of all times shown."""
    return f"times in {local_now().tzname()}"
