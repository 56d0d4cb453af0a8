"""Run Lua scripts as Redis does: Lua 5.1, `redis.call`, and cmsgpack as in Redis' lua_cmsgpack.c."""

import hashlib
import struct
from collections.abc import Sequence
from functools import cache
from typing import Any

import lupa.lua51 as lupa
import msgpack
from redis.exceptions import NoScriptError, ResponseError

from lab.simulator.redis.commands import Answer, Commands, StatusReply
from lab.simulator.redis.store import Store

UNKNOWN = b"ERR Unknown Redis command called from script"
NO_SCRIPT = "NOSCRIPT No matching script. Please use EVAL."
_LARGEST = 2**63
_HOST = """
local call, failed, unpacked, double = ...
local byte, char, floor, concat = string.byte, string.char, math.floor, table.concat
local type, pairs, next, error, tostring = type, pairs, next, error, tostring

redis = {
  call = function(...)
    local answer = call(...)
    if answer == nil then error({ err = failed() }, 0) end
    return answer
  end,
  pcall = function(...)
    local answer = call(...)
    if answer == nil then return { err = failed() } end
    return answer
  end,
  error_reply = function(text) return { err = text } end,
  status_reply = function(text) return { ok = text } end,
}

local function big(prefix, number, bytes)
  local text = {}
  for index = bytes, 1, -1 do
    text[index] = char(number % 256)
    number = floor(number / 256)
  end
  return char(prefix) .. concat(text)
end

local function pack_number(number)
  if number ~= floor(number) or number >= 2 ^ 63 or number < -2 ^ 63 then return double(number) end
  if number >= 0 then
    if number < 128 then return char(number) end
    if number < 256 then return char(204, number) end
    if number < 65536 then return big(205, number, 2) end
    if number < 4294967296 then return big(206, number, 4) end
    return big(207, number, 8)
  end
  if number >= -32 then return char(256 + number) end
  if number >= -128 then return char(208, 256 + number) end
  if number >= -32768 then return big(209, number + 65536, 2) end
  if number >= -2147483648 then return big(210, number + 4294967296, 4) end
  return big(211, number, 8)
end

local function pack_text(text)
  local size = #text
  if size < 32 then return char(160 + size) .. text end
  if size < 256 then return char(217, size) .. text end
  if size < 65536 then return big(218, size, 2) .. text end
  return big(219, size, 4) .. text
end

-- Returns the number of elements of an array, whose keys are the integers from 1; nil for any other table.
local function length_of(value)
  local count, largest = 0, 0
  for key in next, value do
    if type(key) ~= 'number' or key <= 0 or key ~= floor(key) then return nil end
    count = count + 1
    if key > largest then largest = key end
  end
  return largest == count and count or nil
end

local put

local function put_table(parts, value, depth)
  local length = length_of(value)
  if length then
    local wide = length < 65536
    parts[#parts + 1] = length < 16 and char(144 + length) or wide and big(220, length, 2) or big(221, length, 4)
    for index = 1, length do put(parts, value[index], depth + 1) end
    return
  end
  local count = 0
  for _ in next, value do count = count + 1 end
  parts[#parts + 1] = count < 16 and char(128 + count) or count < 65536 and big(222, count, 2) or big(223, count, 4)
  for key, inner in next, value do
    put(parts, key, depth + 1)
    put(parts, inner, depth + 1)
  end
end

put = function(parts, value, depth)
  local kind = type(value)
  if kind == 'number' then
    parts[#parts + 1] = pack_number(value)
  elseif kind == 'string' then
    parts[#parts + 1] = pack_text(value)
  elseif kind == 'boolean' then
    parts[#parts + 1] = value and '\\195' or '\\194'
  elseif kind == 'table' and depth < 16 then
    put_table(parts, value, depth)
  else
    parts[#parts + 1] = '\\192'
  end
end

cmsgpack = {
  pack = function(value)
    local parts = {}
    put(parts, value, 0)
    return concat(parts)
  end,
  unpack = function(text)
    local value, problem = unpacked(text)
    if problem then error(problem, 0) end
    return value
  end,
}

-- A pcall in a script gets an error as text.
local plain_pcall = pcall
local function result_of(done, ...)
  if not done and type(...) == 'table' then return false, (...).err end
  return done, ...
end
function pcall(...) return result_of(plain_pcall(...)) end

-- Runs a script. Python converts its answer: a number loses its fraction, a table ends at its first nil.
return function(script, keys, args)
  KEYS, ARGV = keys, args
  return plain_pcall(script)
end
"""


class ScriptHost:
    """Loads and runs the scripts of one server."""

    def __init__(self, store: Store, commands: Commands) -> None:
        self._store = store
        self._commands = commands
        self._lua: Any = lupa.LuaRuntime(encoding=None, unpack_returned_tuples=True, register_eval=False)
        self._table = self._lua.table_from
        self._scripts: dict[bytes, Any] = {}
        self._error = b""
        host = self._lua.compile(_HOST.encode())
        self._run = host(self._call, lambda: self._error, self._unpacked, _double)

    def load(self, text: bytes) -> bytes:
        """Keep a script. Return its hash. Raises ResponseError if it cannot be compiled."""
        digest = hashlib.sha1(text, usedforsecurity=False).hexdigest().encode()
        if digest not in self._scripts:
            body = text.partition(b"\n")[2] if text.startswith(b"#!") else text
            try:
                self._scripts[digest] = self._lua.compile(_bytecode(body))
            except lupa.LuaSyntaxError as error:
                raise ResponseError(f"ERR Error compiling script (new function): {error}") from None
        return digest

    def knows(self, digest: bytes) -> bool:
        return digest in self._scripts

    def forget(self) -> None:
        """Forget all scripts, as a restart does."""
        self._scripts.clear()

    def evalsha(self, digest: bytes, keys: Sequence[bytes], args: Sequence[bytes]) -> Answer:
        """Run a script. Raises NoScriptError, ResponseError."""
        script = self._scripts.get(digest)
        if script is None:
            raise NoScriptError(NO_SCRIPT)
        done, *answers = _as_tuple(self._run(script, self._table(keys), self._table(args)))
        answer = answers[0] if answers else None
        if not done:
            raise ResponseError(_error_text(answer))
        return self._reply(answer)

    # ------------------------------------------------------------- for the scripts
    def _call(self, *words: Any) -> Any:
        """Return the answer of a command as Lua expects it; None for an error, whose text is kept."""
        try:
            answer = self._commands.call(self._store, [w if type(w) is bytes else _argument(w) for w in words])
        except ResponseError as error:
            self._error = UNKNOWN if str(error).startswith("ERR unknown command") else str(error).encode()
            return None
        if answer is None:
            return False
        kind = type(answer)
        if kind is bytes or kind is int:
            return answer
        return self._lua_table(answer)

    def _lua_table(self, answer: Any) -> Any:
        if isinstance(answer, StatusReply):
            return self._table({b"ok": bytes(answer)})
        return self._table(
            [False if each is None else self._lua_table(each) if type(each) is list else each for each in answer]
        )

    def _unpacked(self, text: bytes) -> Any:
        """Return the value, or None and the problem."""
        try:
            unpacker = msgpack.Unpacker(raw=True, strict_map_key=False, max_buffer_size=0)
            unpacker.feed(text)
            values = list(unpacker)
        except (ValueError, msgpack.UnpackException):
            return None, b"Bad data format in input."
        if not text:
            return None
        if not values or unpacker.tell() != len(text):
            return None, b"Missing bytes in input."
        value = values[0]
        return self._table(value, recursive=True) if isinstance(value, (list, dict)) else value

    def _reply(self, answer: Any) -> Answer:
        """Convert the value that a script returned."""
        kind = type(answer)
        if kind is bytes or kind is int:
            return answer  # type: ignore[no-any-return]
        if kind is float:
            return int(answer) if -_LARGEST <= answer < _LARGEST else -_LARGEST  # the result on x86
        if answer is None or answer is False:
            return None
        if answer is True:
            return 1
        error = answer[b"err"]
        if type(error) is bytes:
            raise ResponseError(error.decode(errors="replace"))
        status = answer[b"ok"]
        if type(status) is bytes:
            return StatusReply(status)
        items: list[Answer] = []
        while (each := answer[len(items) + 1]) is not None:
            items.append(self._reply(each))
        return items


@cache
def _bytecode(source: bytes) -> bytes:
    """Compile a script for all servers of this process: bytecode loads in a sixth of the time. Raises
    LuaSyntaxError."""
    lua: Any = lupa.LuaRuntime(encoding=None)
    return bytes(lua.globals()[b"string"][b"dump"](lua.compile(source)))


def _as_tuple(answer: Any) -> tuple[Any, ...]:
    return answer if isinstance(answer, tuple) else (answer,)


def _argument(word: Any) -> bytes:
    """Return a number as `redis.call` passes it on. Raises ResponseError for other values."""
    if type(word) is int:
        return b"%d" % word
    if type(word) is float:
        return b"%.17g" % word
    raise ResponseError("ERR Lua redis lib command arguments must be strings or integers")


def _double(number: float) -> bytes:
    """Pack a number that is not an integer: in four bytes if that is exact."""
    try:
        short = struct.pack(">f", number)
    except OverflowError:
        short = b""
    if short and struct.unpack(">f", short)[0] == number:
        return b"\xca" + short
    return b"\xcb" + struct.pack(">d", number)


def _error_text(error: Any) -> str:
    if isinstance(error, bytes):
        return f"ERR {error.decode(errors='replace')}"
    try:
        text = error[b"err"]
    except (TypeError, KeyError):
        return f"ERR {error}"
    return str(text.decode(errors="replace")) if isinstance(text, bytes) else "ERR unknown error"
