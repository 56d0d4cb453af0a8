"""Errors of the local stack; each gives both the cause and the fix."""

from dispatcher.model.errors import FairlaneError, Refused


class StackError(FairlaneError):
    """The local stack could not be started or stopped."""


class JavaUnusable(StackError):
    """Java is missing or too old."""


class DownloadFailed(StackError):
    """Pulsar's distribution could not be fetched, or its content is wrong."""


class ServerDied(StackError):
    """A server ended, or did not become ready, while it was being started."""


class NoSpace(StackError):
    """The disk is full, or too full to start anything."""


class AlreadyRunning(Refused):
    """A running server was requested on another port."""


class PortTaken(Refused):
    """A port that was requested by number is in use."""
