"""What can go wrong with the local stack; the cause and what mends it are always both given."""

from dispatcher.model.errors import FairlaneError, Refused


class StackError(FairlaneError):
    """The local stack could not be started or stopped."""


class JavaUnusable(StackError):
    """Java is missing or too old."""


class DownloadFailed(StackError):
    """Pulsar's distribution could not be fetched, or is not what it should be."""


class ServerDied(StackError):
    """A server ended, or never got ready, while it was being started."""


class NoSpace(StackError):
    """The disk is full, or too full to start on."""


class AlreadyRunning(Refused):
    """A server that runs was asked for on another port."""


class PortTaken(Refused):
    """A port that was asked for by number is in use."""
