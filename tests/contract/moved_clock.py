"""Time, for scripts that run in a real Redis, as a test sets it."""

import shutil
import socket
from pathlib import Path

LUA = Path(__file__).resolve().parents[2] / "quotas" / "lua"
TEST_CLOCK = """-- library
-- include: keys.lua
-- The clock of tests, in place of Redis' own.
local function now_ms()
  return tonumber(redis.call('GET', P .. ':test-clock'))
end
"""


def lua_with_test_clock(folder: Path) -> Path:
    """A copy of the ledger's scripts whose clock is a key."""
    shutil.copytree(LUA, folder)
    (folder / "clock.lua").write_text(TEST_CLOCK)
    return folder


class ClockKey:
    """The key that the scripts take for the time. It is set before almost every call: by a plain line over a
    connection of its own, which costs a tenth of a client's command."""

    def __init__(self, server: tuple[str, int], name: str) -> None:
        self._name = name
        self._connection = socket.create_connection(server)
        self._connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._answers = self._connection.makefile("rb")

    def set(self, wall_ms: int) -> None:
        """Returns once the server has it."""
        self._connection.sendall(f"SET {self._name} {wall_ms}\r\n".encode())
        assert self._answers.readline() == b"+OK\r\n"

    def close(self) -> None:
        self._answers.close()
        self._connection.close()
