"""The connection to Redis (or Valkey) and the Lua scripts; translates the vendor's exceptions."""

import hashlib
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any, cast

import redis
from redis import exceptions
from redis.connection import ConnectionPool

from backends.addresses import Address, as_given, usable
from backends.redis.faults import IsCluster, NotPrimary, ServerFault
from backends.redis.keys import CONSTANTS
from backends.redis.pools import OnConnect, copy_of, following, open_pool
from backends.settings import RedisSettings
from dispatcher.model.errors import FairlaneError, Refused, Unreachable

Observe = Callable[[str, float], None]
"""Called with a script's name and the seconds its call took."""
Arg = str | bytes | int


class RedisClient(redis.Redis):
    """A client that remembers its service address, for error messages."""

    address: Address
    rule = ""
    """The command that gives its user the least rights that Fairlane needs."""
    closed = False

    def close(self) -> None:
        """Close the connections for good; the vendor's client would connect again."""
        self.closed = True
        if follows := following(self.connection_pool):
            follows.end()
        super().close()

    def check(self) -> None:
        """Raise Refused if the client is closed."""
        if self.closed:
            raise Refused("This client is closed.", "Connect again.")

    def check_running(self) -> None:
        """Raise Unreachable if this is the local stack's Redis and it has ended: another program may answer there."""
        usable("Redis", self.address, ())


def connect(settings: RedisSettings, on_connect: OnConnect | None = None, *, must_run: bool = True) -> RedisClient:
    """Return a thread-safe client with a pool of connections; nothing is sent yet. Raises InvalidInput for an unusable
    URL, NotConfigured if there is none, and Unreachable if the local stack's Redis has ended.

    must_run: False to raise the last only when the client is used.
    """
    address = settings.address if must_run or settings.url is None else as_given(settings.url)
    pool = open_pool(settings, address, on_connect)
    user = pool.connection_kwargs.get("username") or "default"
    prefix = settings.prefix  # as it is, too: the key of each script
    return _client(pool, address, f"ACL SETUSER {user} ~{prefix} ~{prefix}:* +@all -@dangerous +info")


def _client(pool: ConnectionPool, address: Address, rule: str) -> RedisClient:
    client = cast("RedisClient", RedisClient.from_pool(pool))
    client.address, client.rule = address, rule
    return client


def with_read_timeout(client: RedisClient, seconds: float) -> RedisClient:
    """Return a client of the same server, with its own connections, for commands that block up to this long."""
    return _client(copy_of(client.connection_pool, socket_timeout=seconds), client.address, client.rule)


@contextmanager
def translated(client: redis.Redis) -> Iterator[None]:
    """Turn the vendor's exceptions into Unreachable (or FairlaneError, for an answer that is a defect). Both name the
    client's address."""
    if isinstance(client, RedisClient):
        client.check()
        client.check_running()
    try:
        yield
    except exceptions.RedisError as error:
        if not isinstance(client, RedisClient):
            raise _translate(error, "Redis", "") from error
        raise _translate(error, f"Redis at {client.address.named()}", client.rule) from error


_OUT_OF_MEMORY = (
    "{redis} is out of memory (its maxmemory is reached) and refuses to write.",
    "Raise its maxmemory, or free memory, and try again; accepted tasks are still sent.",
)
_LOADING = ("{redis} is still loading its data.", "Wait: Fairlane continues on its own.")
_REPLICA = (NotPrimary().cause, NotPrimary().next_step)
_ANSWERS: dict[str, tuple[str, str]] = {
    "OOM": _OUT_OF_MEMORY,
    "LOADING": _LOADING,
    "READONLY": _REPLICA,
    "MASTERDOWN": _REPLICA,
    "NOREPLICAS": (
        "{redis} refuses to write, since it has too few replicas (min-replicas-to-write).",
        "Wait if it is not the primary any more; else check its replicas. Fairlane continues on its own.",
    ),
    "MISCONF": (
        "{redis} refuses to write, since it cannot save its data to disk.",
        "Check its log and its disk space.",
    ),
    "BUSY": ("{redis} is busy with a script.", "Wait: Fairlane continues on its own."),
    "NOPERM": (
        "The user of {redis} lacks a right: {text}.",
        "Give it the rights that Fairlane needs: `{rule}`.",
    ),
    "WRONGPASS": ("{redis} refuses the user name or password.", "Correct the Redis user and password in the settings."),
    "NOAUTH": (
        "{redis} requires a password and none is set.",
        "Set the Redis password in the settings (FAIRLANE_REDIS_PASSWORD).",
    ),
}
"""Messages by the first word of an error answer, which the client keeps for some answers only."""
_PHRASES = {
    "Authentication required": _ANSWERS["NOAUTH"],
    "Protocol error: unauthenticated": _ANSWERS["NOAUTH"],  # for a call too long for an unauthenticated client
    "invalid username-password pair": _ANSWERS["WRONGPASS"],
    "CERTIFICATE_VERIFY_FAILED": (
        "The certificate of {redis} is not trusted: {text}.",
        "Set the Redis tls_ca to the file of the authority that signed it.",
    ),
    "_ssl.c": (
        "TLS with {redis} fails: {text}.",
        "Check the Redis TLS files, and whether it asks for a client certificate.",
    ),
}
_NO_REDIS = ("{redis} does not speak Redis' protocol: {text}.", "Check host, port and TLS of the Redis URL.")
_NO_CONNECTION = ("{redis} cannot be reached: {text}.", "Check that it is running and the address is right.")
_KINDS: tuple[tuple[type[Exception], tuple[str, str]], ...] = (
    (exceptions.OutOfMemoryError, _OUT_OF_MEMORY),
    (exceptions.BusyLoadingError, _LOADING),
    (exceptions.ReadOnlyError, _REPLICA),
    (exceptions.NoPermissionError, _ANSWERS["NOPERM"]),
    (exceptions.AuthenticationError, ("{redis} refuses the user name or password: {text}.", _ANSWERS["WRONGPASS"][1])),
    (exceptions.InvalidResponse, _NO_REDIS),
    (
        exceptions.TimeoutError,
        ("{redis} did not answer in time: {text}.", "Check whether it is overloaded or the network is slow."),
    ),
    (exceptions.ConnectionError, _NO_CONNECTION),
)


def _translate(error: exceptions.RedisError, server: str, rule: str) -> FairlaneError:
    """Return Fairlane's error. server: its name and address in the message. rule: gives its user the rights."""
    if isinstance(error, exceptions.AskError | exceptions.ClusterCrossSlotError | exceptions.ClusterDownError):
        error = IsCluster()
    if isinstance(error, ServerFault):
        return error.kind(error.cause.format(redis=server), error.next_step)
    text = str(error).rstrip(".")
    known = (
        _ANSWERS.get(text.partition(" ")[0])
        or next((cause for phrase, cause in _PHRASES.items() if phrase in text), None)
        or next((cause for kind, cause in _KINDS if isinstance(error, kind)), None)
    )
    if known is None:
        return FairlaneError(
            f"{server} answered with an error: {text}.",
            "If no other program writes keys under the prefix, report this as a defect.",
        )
    # A server that misses the client's certificate may reset the connection before its alert is read.
    tls = (
        " Check whether it asks for a client certificate." if known is _NO_CONNECTION and "rediss://" in server else ""
    )
    return Unreachable(known[0].format(redis=server, text=text), known[1].format(rule=rule) + tls)


def pairs(flat: Sequence[Any]) -> list[tuple[Any, Any]]:
    """Return the pairs of an answer that lists names and values in turn."""
    return list(zip(flat[::2], flat[1::2], strict=True))


_THE_SCRIPT = "-- the script\n"
_INCLUDE = re.compile(r"^-- include: (\S+)$", re.MULTILINE)
_CONSTANTS = re.compile(r"^-- constants: (.+)$", re.MULTILINE)


def lua_folder(package: str) -> Traversable:
    """Return the folder `lua` of a package."""
    return files(package) / "lua"


def lua_texts(*folders: Traversable) -> dict[str, str]:
    """Return the texts of all Lua files in some folders and their subfolders, by file name; earlier folders win."""
    texts: dict[str, str] = {}
    for folder in reversed(folders):
        for entry in folder.iterdir():
            if entry.is_dir():
                texts |= lua_texts(entry)
            elif entry.name.endswith(".lua"):
                texts[entry.name] = entry.read_text(encoding="utf-8")
    return texts


def assemble(name: str, texts: Mapping[str, str]) -> str:
    """Return a script with its lines `-- include: file.lua` and `-- constants: NAME` replaced, each file once.

    Raises FileNotFoundError, or KeyError for an unknown constant.
    """
    seen: set[str] = set()

    def text_of(file_name: str) -> str:
        if file_name in seen:
            return ""
        seen.add(file_name)
        if file_name not in texts:
            raise FileNotFoundError(file_name)
        return _INCLUDE.sub(lambda match: text_of(match[1]), texts[file_name])

    return _CONSTANTS.sub(_values, text_of(f"{name}.lua"))


def _values(line: re.Match[str]) -> str:
    names = line[1].split(", ")
    return f"local {line[1]} = {', '.join(CONSTANTS[name] for name in names)}"


@cache
def _texts_in(folder: Traversable) -> Mapping[str, str]:
    """Return a folder's scripts by name. Their files do not change while the process lives."""
    sources = lua_texts(folder, lua_folder("backends.redis"))
    texts = {(name := file.removesuffix(".lua")): assemble(name, sources) for file in sorted(lua_texts(folder))}
    guard = sources["guard.lua"]
    return {name: _guarded(text, guard) for name, text in texts.items() if not text.startswith("-- library")}


def _guarded(text: str, guard: str) -> str:
    """Wrap a script in its guard, after the line with its flags. A script that may not write needs no guard."""
    flags, body = text.split("\n", 1) if text.startswith("#!") else ("", text)
    return text if "no-writes" in flags else f"{flags}\n{guard.replace(_THE_SCRIPT, body)}".lstrip("\n")


class Scripts:
    """The Lua scripts of one folder, called by hash and loaded if Redis does not know them.

    Files that are only included by others begin with `-- library`.
    """

    def __init__(
        self,
        client: redis.Redis,
        folder: Traversable,
        *,
        observe: Observe | None = None,
    ) -> None:
        self._texts = _texts_in(folder)  # type: ignore[arg-type]  # a Traversable is hashable
        self._hashes = {name: _hash(text) for name, text in self._texts.items()}
        self._client = client
        self._observe = observe

    @property
    def digests(self) -> Mapping[str, str]:
        """Return the hashes by script name, as Redis knows them."""
        return self._hashes

    def of(self, folder: Traversable) -> "Scripts":
        """Return the scripts of another folder, with the same client and observer."""
        return Scripts(self._client, folder, observe=self._observe)

    def call(self, name: str, keys: Sequence[str], args: Sequence[Arg] = ()) -> Any:
        """Call a script and return its answer. Raises Unreachable."""
        started_s = time.perf_counter()
        with translated(self._client):
            try:
                answer = self._client.evalsha(self._hashes[name], len(keys), *keys, *args)
            except exceptions.NoScriptError:
                self._load()
                answer = self._client.evalsha(self._hashes[name], len(keys), *keys, *args)
        if self._observe is not None:
            self._observe(name, time.perf_counter() - started_s)
        return answer

    def call_many(self, calls: Sequence[tuple[str, Sequence[str], Sequence[Arg]]]) -> list[Any]:
        """Return the answers of many calls in one round trip. A call runs even if another fails. Raises Unreachable."""
        answers = self._pipeline(calls)
        if any(isinstance(answer, exceptions.NoScriptError) for answer in answers):
            with translated(self._client):
                self._load()
            answers = self._pipeline(calls)
        with translated(self._client):
            for answer in answers:
                if isinstance(answer, Exception):
                    raise answer
        return answers

    def check(self) -> bool:
        """Return whether Redis knows the scripts; load them if it does not. Raises Unreachable."""
        with translated(self._client):
            known = all(self._client.script_exists(*self._hashes.values()))
            if not known:
                self._load()
        return known

    def _pipeline(self, calls: Sequence[tuple[str, Sequence[str], Sequence[Arg]]]) -> list[Any]:
        started_s = time.perf_counter()
        with translated(self._client):
            pipeline = self._client.pipeline(transaction=False)
            for name, keys, args in calls:
                pipeline.evalsha(self._hashes[name], len(keys), *keys, *args)
            answers: list[Any] = pipeline.execute(raise_on_error=False)
        if self._observe is not None and calls:
            self._observe(calls[0][0], time.perf_counter() - started_s)
        return answers

    def _load(self) -> None:
        pipeline = self._client.pipeline(transaction=False)
        for text in self._texts.values():
            pipeline.script_load(text)
        pipeline.execute()


def _hash(text: str) -> str:
    return hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()
