"""The built-in channels in words: which there are, and which of them send nothing."""

from typing import Final

NO_CHANNEL: Final = (
    "is missing; name fcm, apns, http or a channel of your own (for trials, log only writes into the workers' log and "
    "null does nothing)"
)
"""The message about a task without a channel. There is no default: a forgotten channel would send to nobody."""
PROVIDERS: Final = ("fcm", "apns")
"""The channels of SPECS. Each of their requests has one target."""
_TRIALS: Final = {"null": "its targets count as sent", "log": "its targets are written into the workers' log"}


def sends_nothing(channel: str) -> str:
    """Return a sentence that says so if the channel only tries tasks out; empty if it delivers."""
    return f"channel {channel} sends nothing: {_TRIALS[channel]}" if channel in _TRIALS else ""
