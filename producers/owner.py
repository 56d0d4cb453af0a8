"""The process a client belongs to, and its user. Threads and connections of Pulsar's client do not survive a fork."""

import getpass
import os
import socket
from contextlib import suppress

from dispatcher.model.errors import Refused


class OwnerProcess:
    """Remembers the process in which it was created."""

    def __init__(self) -> None:
        self._pid = os.getpid()

    def is_this(self) -> bool:
        """Return whether this is still that process."""
        return os.getpid() == self._pid

    def check(self) -> None:
        """Raise Refused in any other process."""
        if not self.is_this():
            raise Refused(
                f"This client belongs to process {self._pid}, which has used it, and this is process {os.getpid()}: "
                "a client cannot be used after a fork.",
                "Call PushClient.connect in each process, after the fork.",
            )


def this_user() -> str:
    """Return USER@HOST of this process."""
    user = "unknown"
    with suppress(OSError, KeyError):
        user = getpass.getuser()
    return f"{user}@{socket.gethostname()}"
