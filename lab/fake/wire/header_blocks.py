"""Header blocks of HTTP/2 (HPACK): requests are read, replies are written.

Uses the tables of the package hpack. Its decoder takes 400 us for a request with an access token of 1,000 characters,
which clients send in full each time; here a text that was seen before costs a look-up.
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple

from hpack.exceptions import HPACKError
from hpack.hpack import decode_integer, encode_integer
from hpack.huffman_table import decode_huffman
from hpack.table import HeaderTable

MAX_BLOCK_BYTES = 65_536
_MAX_TABLE_BYTES = 4_096
_MAX_BLOCKS = 64
_INDEXED_STATUS = {200: 8, 204: 9, 206: 10, 304: 11, 400: 12, 404: 13, 500: 14}
_STATUS_NAME = 8
_PSEUDO = {":method", ":path", ":scheme", ":authority"}
_OF_CONNECTIONS = {"connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade"}


class BadBlock(Exception):
    """The block cannot be read; the connection's tables are out of step from now on."""


class RequestHead(NamedTuple):
    """A request without its body."""

    fields: Mapping[str, str]
    """By name; pseudo-headers too."""
    has_repeated: bool
    is_malformed: bool
    """Whether the fields break the rules of HTTP/2 for requests."""


class HeaderReader:
    """Reads the header blocks of a connection, in their order."""

    def __init__(self) -> None:
        self._table = HeaderTable()
        self._blocks: dict[bytes, RequestHead] = {}

    def read(self, block: bytes) -> RequestHead:
        """Return the request's head. Raises BadBlock."""
        known = self._blocks.get(block)
        if known is not None:
            return known
        try:
            pairs, has_changed = self._decoded(block)
            head = _head([(name.decode("ascii"), value.decode("utf-8", "replace")) for name, value in pairs])
        except (HPACKError, IndexError, ValueError) as error:
            raise BadBlock(str(error)) from error
        if has_changed or len(self._blocks) >= _MAX_BLOCKS:
            self._blocks.clear()
        if not has_changed:
            self._blocks[block] = head
        return head

    def _decoded(self, block: bytes) -> tuple[list[tuple[bytes, bytes]], bool]:
        """Return the fields, and whether the table has changed, so that equal blocks may mean something else."""
        pairs: list[tuple[bytes, bytes]] = []
        at, has_changed = 0, False
        while at < len(block):
            first = block[at]
            if first & 0x80:
                index, at = _integer(block, at, 7)
                pairs.append(self._table.get_by_index(index))
            elif first & 0xE0 == 0x20:
                at = self._resize(block, at)
                has_changed = True
            else:
                is_indexed = bool(first & 0x40)
                pair, at = self._literal(block, at, 6 if is_indexed else 4)
                pairs.append(pair)
                if is_indexed:
                    self._table.add(*pair)
                    has_changed = True
        return pairs, has_changed

    def _literal(self, block: bytes, at: int, bits: int) -> tuple[tuple[bytes, bytes], int]:
        index, at = _integer(block, at, bits)
        if index:
            name = self._table.get_by_index(index)[0]
        else:
            name, at = _text(block, at)
        value, at = _text(block, at)
        return (name, value), at

    def _resize(self, block: bytes, at: int) -> int:
        size, at = _integer(block, at, 5)
        if size > _MAX_TABLE_BYTES:
            raise ValueError("the table is larger than allowed")
        self._table.maxsize = size
        return at


def _integer(block: bytes, at: int, bits: int) -> tuple[int, int]:
    """Return an integer and the position after it."""
    mask = (1 << bits) - 1
    value = block[at] & mask
    if value < mask:
        return value, at + 1
    value, used = decode_integer(block[at : at + 8], bits)
    return value, at + used


def _text(block: bytes, at: int) -> tuple[bytes, int]:
    """Return a text and the position after it."""
    is_coded = block[at] & 0x80
    size, at = _integer(block, at, 7)
    end = at + size
    if end > len(block):
        raise ValueError("the block is cut off")
    coded = block[at:end]
    return _plain(coded) if is_coded else coded, end


@lru_cache(maxsize=4_096)
def _plain(coded: bytes) -> bytes:
    """Decode a text. Credentials and names are the same in all requests."""
    return bytes(decode_huffman(coded))


def _head(pairs: list[tuple[str, str]]) -> RequestHead:
    fields = dict(pairs)
    names = [name for name, _ in pairs if name != "cookie"]
    pseudo = [name for name in names if name.startswith(":")]
    is_malformed = (
        names[: len(pseudo)] != pseudo
        or not _PSEUDO.issuperset(pseudo)
        or len(set(pseudo)) < len(pseudo)
        or not {":method", ":path", ":scheme"}.issubset(pseudo)
        or bool(_OF_CONNECTIONS & fields.keys())
        or any(name != name.lower() for name in names)
    )
    return RequestHead(fields, len(set(names)) < len(names), is_malformed)


# ---------------------------------------------------------------- replies
def written(status: int, headers: tuple[tuple[str, str], ...]) -> bytes:
    """Return the block of a reply. It uses no table, so the client's settings do not matter."""
    index = _INDEXED_STATUS.get(status)
    start = bytes((0x80 | index,)) if index else bytes((_STATUS_NAME, 3)) + str(status).encode()
    return start + b"".join([b"\0" + _written_text(name) + _written_text(value) for name, value in headers])


def _written_text(text: str) -> bytes:
    plain = text.encode("latin-1", "replace")
    return bytes(encode_integer(len(plain), 7)) + plain
