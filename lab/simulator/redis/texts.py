"""Commands on strings and bitmaps."""

from collections.abc import Iterator, Sequence

from redis.exceptions import ResponseError

from lab.simulator.redis.commands import OK, SYNTAX, Answer, Commands, parse_int, summed
from lab.simulator.redis.store import Store, Text

TEXTS = Commands()
command = TEXTS.command
_MAX_BYTES = 512 * 1024 * 1024
_BIT_OFFSET = "ERR bit offset is not an integer or out of range"
_BIT = "ERR bit is not an integer or out of range"
_WORD = "ERR Invalid bitfield type. Use something like i16 u8. Note that u64 is not supported but i64 is."


@command("GET", 1, 1)
def get(store: Store, words: Sequence[bytes]) -> Answer:
    text = store.get(words[0], Text)
    return None if text is None else bytes(text)


@command("SET", 2)
def set_(store: Store, words: Sequence[bytes]) -> Answer:
    key, value, *options = words
    named = [option.upper() for option in options]
    expire_ms = None
    if b"PX" in named:
        at = named.index(b"PX")
        expire_ms = parse_int(options[at + 1]) if at + 1 < len(options) else 0
        if expire_ms <= 0:
            raise ResponseError("ERR invalid expire time in 'set' command")
        del named[at : at + 2]
    if not set(named) <= {b"NX", b"XX"} or len(named) > 1:
        raise ResponseError(SYNTAX)
    if named and store.holds(key) is (named == [b"NX"]):
        return None
    store.put(key, Text(value))
    if expire_ms is not None:
        store.expire_at(key, store.now_ms() + expire_ms)
    return OK


@command("GETEX", 3, 3)
def getex(store: Store, words: Sequence[bytes]) -> Answer:
    """Return a string, and let it live for a time from now (PX)."""
    if words[1].upper() != b"PX":
        raise ResponseError(SYNTAX)
    text = get(store, words[:1])
    store.expire_at(words[0], store.now_ms() + parse_int(words[2]))
    return text


@command("GETDEL", 1, 1)
def getdel(store: Store, words: Sequence[bytes]) -> Answer:
    text = get(store, words)
    store.delete(words[0])
    return text


@command("INCR", 1, 1)
def incr(store: Store, words: Sequence[bytes]) -> Answer:
    text = store.get(words[0], Text)
    total = summed(None if text is None else bytes(text), 1)
    store.make(words[0], Text)[:] = b"%d" % total
    return total


TEXTS.lookup("STRLEN", 1, 1, Text, lambda text, _: len(text))


@command("SETRANGE", 3, 3)
def setrange(store: Store, words: Sequence[bytes]) -> Answer:
    start, piece = parse_int(words[1]), words[2]
    if start < 0:
        raise ResponseError("ERR offset is out of range")
    if start + len(piece) > _MAX_BYTES:
        raise ResponseError("ERR string exceeds maximum allowed size (proto-max-bulk-len)")
    if not piece:
        return len(store.get(words[0], Text) or b"")
    text = _of_length(store, words[0], start + len(piece))
    text[start : start + len(piece)] = piece
    return len(text)


# ---------------------------------------------------------------- bits
@command("GETBIT", 2, 2)
def getbit(store: Store, words: Sequence[bytes]) -> Answer:
    at = _offset(words[1])
    text = store.get(words[0], Text) or b""
    return text[at >> 3] >> (7 - at % 8) & 1 if at >> 3 < len(text) else 0


@command("SETBIT", 3, 3)
def setbit(store: Store, words: Sequence[bytes]) -> Answer:
    at, bit = _offset(words[1]), words[2]
    if bit not in (b"0", b"1"):
        raise ResponseError(_BIT)
    text = _of_length(store, words[0], (at >> 3) + 1)
    return _swap(text, at, 1, int(bit))


@command("BITCOUNT", 1)
def bitcount(store: Store, words: Sequence[bytes]) -> Answer:
    text = store.get(words[0], Text)
    if text is None:
        return 0
    if len(words) == 1:
        return int.from_bytes(text).bit_count()
    if len(words) < 3:
        raise ResponseError(SYNTAX)
    first, last = parse_int(words[1]), parse_int(words[2])
    if last < first < 0:
        return 0
    bits, count = _range(text, first, last, in_bits=_in_bits(words[3:]))
    return bits.bit_count() if count else 0


@command("BITPOS", 2)
def bitpos(store: Store, words: Sequence[bytes]) -> Answer:
    if words[1] not in (b"0", b"1"):
        parse_int(words[1])
        raise ResponseError("ERR The bit argument must be 1 or 0.")
    text = store.get(words[0], Text)
    bit, in_bits = int(words[1]), _in_bits(words[4:])
    if text is None:
        return -1 if bit else 0
    first = parse_int(words[2]) if len(words) > 2 else 0
    last = parse_int(words[3]) if len(words) > 3 else -1
    size = len(text) * 8 if in_bits else len(text)
    first, last = _between(first, last, size)
    bits, count = _range(text, first, last, in_bits=in_bits)
    if not count:
        return -1
    start = first if in_bits else first * 8
    candidates = bits if bit else bits ^ ((1 << count) - 1)
    if candidates:
        return start + count - candidates.bit_length()
    return start + count if not bit and len(words) < 4 else -1


@command("BITFIELD", 1)
def bitfield(store: Store, words: Sequence[bytes]) -> Answer:
    """Run SET on unsigned words, the only operation that the scripts use."""
    changes = [(*field, parse_int(value) & ((1 << field[1]) - 1)) for field, value in _fields(words, b"SET", 4)]
    if not changes:
        return []
    text = _of_length(store, words[0], max(offset + width + 7 >> 3 for offset, width, _ in changes))
    return [_swap(text, *change) for change in changes]


@command("BITFIELD_RO", 1)
def bitfield_ro(store: Store, words: Sequence[bytes]) -> Answer:
    """Run GET on unsigned words, the only supported operation."""
    fields = [field for field, _ in _fields(words, b"GET", 3)]
    text = store.get(words[0], Text) or b""
    return [_word(text, *field) for field in fields]


def _fields(words: Sequence[bytes], operation: bytes, length: int) -> Iterator[tuple[tuple[int, int], bytes]]:
    """Yield offset and width of each field, and the last word of the operation on it."""
    for at in range(1, len(words), length):
        name, kind, offset, *_ = operands = [*words[at : at + length], b"", b""]
        width = int(kind[1:]) if kind[1:].isdigit() else 0
        if name.upper() != operation or len(words) < at + length:
            raise ResponseError(SYNTAX)
        if kind[:1] != b"u" or not 1 <= width <= 63:
            raise ResponseError(_WORD)
        yield (_offset(offset), width), operands[length - 1]


def _word(text: bytes | Text, at: int, width: int) -> int:
    """Return a word of bits; past its end a string reads as zeros."""
    first, last = at >> 3, at + width + 7 >> 3
    bits = int.from_bytes(text[first:last].ljust(last - first, b"\0"))
    return bits >> (last * 8 - at - width) & ((1 << width) - 1)


def _offset(text: bytes) -> int:
    try:
        at = parse_int(text)
    except ResponseError:
        raise ResponseError(_BIT_OFFSET) from None
    if not 0 <= at < _MAX_BYTES * 8:
        raise ResponseError(_BIT_OFFSET)
    return at


def _of_length(store: Store, key: bytes, length: int) -> Text:
    """Return the string, padded with zeros to this length."""
    text = store.make(key, Text)
    if len(text) < length:
        text.extend(bytes(length - len(text)))
    return text


def _swap(text: Text, at: int, width: int, value: int) -> int:
    """Write a word of bits. Return the old value."""
    first, last = at >> 3, at + width + 7 >> 3
    shift, mask = last * 8 - at - width, (1 << width) - 1
    old = int.from_bytes(text[first:last])
    text[first:last] = (old & ~(mask << shift) | value << shift).to_bytes(last - first)
    return old >> shift & mask


def _in_bits(words: Sequence[bytes]) -> bool:
    """Return whether a range is counted in bits, from the words after it."""
    unit = [word.upper() for word in words]
    if unit not in ([], [b"BIT"], [b"BYTE"]):
        raise ResponseError(SYNTAX)
    return unit == [b"BIT"]


def _between(first: int, last: int, size: int) -> tuple[int, int]:
    """Return a range with both ends counted from the beginning; negative ends are counted from the end."""
    first, last = (max(0, size + end) if end < 0 else end for end in (first, last))
    return first, min(last, size - 1)


def _range(text: bytes | Text, first: int, last: int, *, in_bits: bool) -> tuple[int, int]:
    """Return the bits of a range as one number, and the number of bits."""
    first, last = _between(first, last, len(text) * 8 if in_bits else len(text))
    if first > last:
        return 0, 0
    begin, end = (first, last + 1) if in_bits else (first * 8, last * 8 + 8)
    low, high = begin >> 3, end + 7 >> 3
    bits = int.from_bytes(text[low:high]) >> (high * 8 - end)
    return bits & ((1 << end - begin) - 1), end - begin
