"""The Redis in memory does what a real one does: every command, alone and from a script, with sense and nonsense."""

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
import redis
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from benchmarks.redis_server import binaries, running
from lab.simulator.redis.server import MemoryRedis
from tests.contract.memory_twins import contents_of

NOW_MS = 1_700_000_000_000
keys = st.sampled_from(["text", "hash", "set", "zset", "new"])
names = st.sampled_from(["a", "b", "c", "", "\xff"])
values = st.sampled_from(["", "x", "0", "7", "-3", "1.5", "99999999999999999999", "\x00\xff", "nan", " 1"])
wholes = st.integers(-3, 40).map(str) | values
places = st.integers(-50, 50).map(str)
scores = st.sampled_from(["0", "1", "-1", "2.5", "1e3", "inf", "-inf", "1700000000000", "x", "nan", ""])
bounds = scores | scores.map(lambda score: f"({score}")
bits = st.sampled_from(["0", "1", "2", "-1", "x"])
units = st.sampled_from([[], ["BIT"], ["BYTE"], ["bit"]])


def words(name: str, *parts: st.SearchStrategy[Any]) -> st.SearchStrategy[list[str]]:
    """A command. A part is one argument, or a list of them."""

    def listed(chosen: tuple[Any, ...]) -> list[str]:
        return [name, *(word for part in chosen for word in (part if isinstance(part, list) else [part]))]

    return st.tuples(*parts).map(listed)


some_names = st.lists(names, min_size=1, max_size=3)
fields = st.lists(st.tuples(names, values), min_size=1, max_size=3).map(
    lambda pairs: [w for pair in pairs for w in pair]
)
members = st.lists(st.tuples(scores, names), min_size=1, max_size=3).map(
    lambda pairs: [w for pair in pairs for w in pair]
)
limit: st.SearchStrategy[list[object]] = st.just(list[object]()) | st.tuples(wholes, wholes).map(
    lambda ends: ["LIMIT", *ends]
)
word = st.tuples(st.sampled_from(["u1", "u8", "u13", "u48", "u63", "u64", "x"]), wholes, wholes).map(
    lambda chosen: ["SET", *chosen]
)
read_word = st.tuples(st.sampled_from(["u1", "u8", "u13", "u63", "u64", "x"]), wholes).map(
    lambda chosen: ["GET", *chosen]
)
COMMANDS = [
    words("GET", keys), words("SET", keys, values), words("SET", keys, values, st.sampled_from([["NX"], ["XX"]])),
    words("GETEX", keys, st.just(["PX", "600000"])), words("GETDEL", keys),
    words("INCR", keys), words("STRLEN", keys),
    words("SETRANGE", keys, wholes, values),
    words("GETBIT", keys, wholes), words("SETBIT", keys, wholes, bits),
    words("BITCOUNT", keys), words("BITCOUNT", keys, places, places, units),
    words("BITPOS", keys, bits), words("BITPOS", keys, bits, places, places, units),
    words("BITFIELD", keys, word), words("BITFIELD", keys, word, word),
    words("BITFIELD_RO", keys, read_word), words("BITFIELD_RO", keys, read_word, read_word),
    words("HGET", keys, names), words("HMGET", keys, some_names), words("HGETALL", keys), words("HKEYS", keys),
    words("HLEN", keys), words("HEXISTS", keys, names), words("HSET", keys, fields), words("HSET", keys, names),
    words("HSETNX", keys, names, values), words("HINCRBY", keys, names, wholes), words("HDEL", keys, some_names),
    words("SADD", keys, some_names), words("SREM", keys, some_names), words("SMEMBERS", keys),
    words("SISMEMBER", keys, names), words("SCARD", keys),
    words("ZADD", keys, members), words("ZREM", keys, some_names), words("ZCARD", keys), words("ZSCORE", keys, names),
    words("ZMSCORE", keys, some_names), words("ZREVRANK", keys, names), words("ZCOUNT", keys, bounds, bounds),
    words("ZRANGE", keys, wholes, wholes), words("ZRANGE", keys, wholes, wholes, st.just("WITHSCORES")),
    words("ZREVRANGE", keys, wholes, wholes, st.just("WITHSCORES")),
    words("ZRANGEBYSCORE", keys, bounds, bounds, limit),
    words("DEL", st.lists(keys, min_size=1, max_size=2)), words("UNLINK", keys), words("EXISTS", keys, keys),
    words("COPY", keys, keys), words("COPY", keys, keys, st.just("REPLACE")), words("RENAME", keys, keys),
    words("PEXPIRE", keys, st.sampled_from(["60000", "0", "-5", "x"])), words("PERSIST", keys), words("TYPE", keys),
    words("DBSIZE"), words("PING"), words("NOSUCH", keys),
]  # fmt: skip
FILLED = [
    ["SET", "text", "\x0f\xf0abc"], ["HSET", "hash", "a", "1", "b", "x"], ["SADD", "set", "a", "b"],
    ["ZADD", "zset", "1", "a", "2.5", "b", "2.5", "c"],
]  # fmt: skip
UNORDERED = {"HGETALL", "HKEYS", "SMEMBERS"}


class Pair:
    """A real server and one in memory, which are told the same."""

    def __init__(self, url: str) -> None:
        options: dict[str, Any] = {"protocol": 2, "encoding": "latin-1"}
        self.memory = MemoryRedis(lambda: NOW_MS)
        self.clients = (redis.Redis.from_url(url, **options), self.memory.client())

    def call(self, command: list[str]) -> tuple[Any, Any]:
        """Return both answers. An error becomes its text, without the client's addition."""
        encoded = [part.encode("latin-1") for part in command[1:]]
        real, memory = (_answer(client, command[0], encoded) for client in self.clients)
        return real, memory

    def begin(self) -> None:
        for client in self.clients:
            client.flushdb()
        for command in FILLED:
            self.call(command)

    def assert_alike(self) -> None:
        real, memory = (contents_of(client) for client in self.clients)
        assert memory == real


def _answer(client: Any, name: str, words: list[bytes]) -> Any:
    try:
        answer = client.execute_command(name, *words)
    except redis.exceptions.ResponseError as error:
        return f"{type(error).__name__}: {error}".partition(", with args")[0]
    return sorted(answer) if name in UNORDERED and isinstance(answer, list) else answer


@pytest.fixture(scope="module", params=sorted(binaries().items()), ids=lambda named: named[0])
def pair(request: pytest.FixtureRequest) -> Iterator[Pair]:
    with running(binary=request.param[1]) as server:
        yield Pair(server.url)


@settings(max_examples=400, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(st.one_of(COMMANDS), min_size=1, max_size=12))
def test_every_command_answers_and_leaves_what_a_real_one_does(pair: Pair, commands: list[list[str]]) -> None:
    pair.begin()
    for command in commands:
        real, memory = pair.call(command)
        assert _plain(memory) == _plain(real), command
    pair.assert_alike()


# ---------------------------------------------------------------- scripts
CALL = "return redis.call(unpack(ARGV))"
FOUND = """
local answer = redis.pcall(unpack(ARGV))
local kind = type(answer)
if kind ~= 'table' then return { kind, tostring(answer) } end
if answer.err then return { 'err', answer.err } end
if answer.ok then return { 'ok', answer.ok } end
local kinds = {}
for place, one in ipairs(answer) do kinds[place] = type(one) .. ' ' .. tostring(one) end
return { 'table', #answer, kinds }
"""


@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(st.one_of(COMMANDS), min_size=1, max_size=6))
def test_a_script_is_given_the_same_answers_of_the_same_types(pair: Pair, commands: list[list[str]]) -> None:
    pair.begin()
    for command in commands:
        if command[0] in UNORDERED:
            continue
        for script in (CALL, FOUND):
            real, memory = pair.call(["EVAL", script, "0", *command])
            assert _plain(memory) == _plain(real), (command, script)
    pair.assert_alike()


def _plain(answer: Any) -> Any:
    """Return an answer without what servers say differently of an error in a script: its hash, the line, the words."""
    if isinstance(answer, list) and answer[:1] == [b"err"]:
        return [b"err", _plain(answer[1].decode("latin-1"))]
    if not isinstance(answer, str):
        return answer
    text = answer.partition(" script: ")[0].rstrip(",")
    if "WRONGTYPE" in text or "syntax" in text or text.endswith(("out of range", "float")):
        return "refused"  # where two things are wrong, servers differ in which they say
    for known in ("Unknown Redis command", "Unknown command", "Wrong number of args", "wrong number of arguments"):
        if known in text:
            return known.partition(" ")[0].lower()
    return text


packed = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**52), 2**52) | st.floats(allow_nan=False) | st.text(max_size=40),
    lambda inner: st.lists(inner, max_size=20) | st.dictionaries(st.text(max_size=3), inner, max_size=1),
    max_leaves=20,
)


@settings(max_examples=500, deadline=None, suppress_health_check=list(HealthCheck))
@given(packed)
@example({"ok": -1})
@example({"err": False})
def test_messages_are_packed_and_unpacked_as_by_redis(pair: Pair, value: Any) -> None:
    text = msgspec.msgpack.encode(value).decode("latin-1")
    for script in (
        "return cmsgpack.pack(cmsgpack.unpack(ARGV[1]))",
        "local value = cmsgpack.unpack(ARGV[1]); return { type(value), tostring(value):match('^[^:]*') }",
        "return { cmsgpack.unpack(ARGV[1]) }",
    ):
        real, memory = pair.call(["EVAL", script, "0", text])
        assert memory == real, script


@pytest.mark.parametrize(
    "script",
    [
        "return { 1, 2.9, -2.9, 'x', true, false, 'y' }",
        "return { 1, nil, 3 }",
        "return nil",
        "return 3.99",
        "return -0.5",
        "return 2^53",
        "return { { 1 }, { ok = 'fine' } }",
        "return redis.error_reply('BAD thing')",
        "return redis.status_reply('FINE')",
        "return { err = 'BAD thing' }",
        "error('no')",
        "error({ err = 'BAD thing' })",
        "return tostring(1e15)",
        "return tostring(2^53)",
        "return string.format('%.0f', 2^53)",
        "return redis.call('SET', 'n', 1e15) and redis.call('GET', 'n')",
        "return redis.call('SET', 'n', 2^53) and redis.call('GET', 'n')",
        "return redis.call('SET', 'n', -7) and redis.call('GET', 'n')",
        "return redis.call('SET', 'n', true)",
        "return { pcall(redis.call, 'HGET', 'text', 'a') }",
        "local done, problem = pcall(redis.call, 'HGET', 'text', 'a'); return type(problem) == 'table' and problem.err",
        "return #{ unpack({ 1, 2, 3 }) }",
        "local t = {}; for i = 1, 9000 do t[i] = i end; return #{ unpack(t) }",
        "return cmsgpack.pack({})",
        "return cmsgpack.pack({ a = {} })",
        "return cmsgpack.pack({ [1] = 'a', [3] = 'c' })",
        "return cmsgpack.pack(1.0)",
        "return cmsgpack.pack(2^63)",
        "return cmsgpack.pack(-2^63)",
        "return cmsgpack.pack(0.1)",
        "return cmsgpack.pack(0.5)",
        "return cmsgpack.pack(string.rep('x', 31)) .. cmsgpack.pack(string.rep('x', 300))",
        "local t = {}; for i = 1, 20 do t = { t } end; return cmsgpack.pack(t)",
        "return cmsgpack.unpack('')",
        "return cmsgpack.unpack(string.char(146, 1))",
        "return cmsgpack.unpack(string.char(193))",
        "return #KEYS .. ' ' .. #ARGV",
        "return redis.call('NOSUCH')",
        "return redis.call('HSET', 'hash')",
        "this is no Lua",
    ],
)
def test_what_is_special_about_scripts_in_redis(pair: Pair, script: str) -> None:
    pair.begin()
    real, memory = pair.call(["EVAL", script, "0"])
    if isinstance(real, str) and isinstance(memory, str) and "user_script" in real:
        real, memory = (answer.partition(":")[0] for answer in (real, memory))  # where in the script, the server says
    assert _plain(memory) == _plain(real)
    pair.assert_alike()


def test_a_script_that_is_not_known_or_forgotten_is_refused(pair: Pair) -> None:
    digest = "0" * 40
    real, memory = pair.call(["EVALSHA", digest, "0"])
    assert (memory[:13], real[:13]) == ("NoScriptError", "NoScriptError")


def test_a_restart_has_another_run_id_and_no_scripts() -> None:
    server = MemoryRedis(lambda: NOW_MS)
    client = server.client()
    digest = client.script_load("return 1")
    client.set("kept", "x")
    before = client.info("server")["run_id"]
    server.restart()
    assert client.info("server")["run_id"] != before
    assert client.script_exists(digest) == [False]
    assert client.get("kept") == b"x"
    server.restart(emptied=True)
    assert client.dbsize() == 0


def test_keys_expire_by_the_clock_that_is_passed_in() -> None:
    now = [NOW_MS]
    server = MemoryRedis(lambda: now[0])
    client = server.client()
    client.set("a", "x", px=1_000)
    client.hset("h", "f", "x")
    client.pexpire("h", 500)
    assert (client.pttl("a"), client.pttl("h"), client.time()) == (1_000, 500, (NOW_MS // 1000, 0))
    now[0] += 500
    assert (client.get("a"), client.exists("h"), client.pttl("a")) == (b"x", 0, 500)
    client.set("a", "y")
    now[0] += 60_000
    assert client.get("a") == b"y", "a new value does not expire"
    assert {**server.store.contents()} == {b"a": (b"y", None)}


def test_a_store_is_copied_and_put_back_whole() -> None:
    server = MemoryRedis(lambda: NOW_MS)
    client = server.client()
    for command in FILLED:
        client.execute_command(*command)  # type: ignore[no-untyped-call]
    kept, contents = server.store.snapshot(), server.store.contents()
    client.hset("hash", "a", "2")
    client.zadd("zset", {"a": 9})
    client.delete("set")
    assert server.store.contents() != contents
    server.store.restore(kept)
    assert server.store.contents() == contents
    client.hset("hash", "a", "2")
    server.store.restore(kept)
    assert server.store.contents() == contents, "a snapshot can be put back twice"
