"""The changes made by people and keys, newest first: who changed what, from what, to what."""

from collections.abc import Iterator

import msgspec

from backends.redis.view import ViewPart
from dispatcher.letters.marks import LetterMark, MarkKind

_PAGE = 500


class AuditEntry(msgspec.Struct, array_like=True, frozen=True, kw_only=True):
    """One change, as its record names it; stored as in backends/redis/lua/registry/audit.lua."""

    app: str
    """Empty: it is about no one app, or the app was not known when it was noted."""
    at_ms: int
    by: str
    """As in dispatcher.access.principal.Caller."""
    request: str
    """Id of the HTTP request; empty if there was none."""
    task: str
    """Empty: a setting, a key or a policy."""
    field: str
    """The control or setting, as stored."""
    before: str
    """The value before, as stored; empty if it is not known or there was none."""
    after: str


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(AuditEntry).decode


class AuditTable(ViewPart):
    """The newest changes; their number is bounded. All methods raise Unreachable when Redis is gone."""

    def entries(
        self, limit: int, app: str | None = None, before: tuple[int, int] | None = None
    ) -> Iterator[AuditEntry]:
        """Yield up to `limit` changes, newest first; app: only those of this app.

        before: a time (wall ms), and how many changes of that time to leave out; of later ones all are left out.
        """
        key = self._view.keys.audit if app is None else self._view.keys.audit_of(app)
        first = 0 if before is None else self._view.command("ZCOUNT", key, f"({before[0]}", "+inf") + before[1]
        for start in range(first, first + limit, _PAGE):
            ids = self._view.command("ZREVRANGE", key, start, min(start + _PAGE, first + limit) - 1)
            packed = self._view.command("HMGET", self._view.keys.audit_entry, *ids) if ids else []
            yield from (_decode(body) for body in packed if body is not None)
            if len(ids) < _PAGE:
                return

    def keep_mark(self, mark: LetterMark) -> None:
        """Keep what a person or a key did with dead letters, which is not in the control topic."""
        if not mark.by or mark.kind is MarkKind.REPLAYED:
            return
        tasks = {letter.task for letter in mark.letters}
        task = tasks.pop() if len(tasks) == 1 else ""
        stored = self._view.command("HGET", self._view.keys.task(task), "app") if task else None
        count = sum(len(letter.positions) for letter in mark.letters)
        entry = AuditEntry(
            app=(stored or b"").decode(),
            at_ms=mark.at_ms,
            by=mark.by,
            request=mark.request,
            task=task,
            field=f"letters_{mark.kind}",
            before="",
            after=f"{count} letters",
        )
        self._view.call("keep_audit_entry", f"l:{mark.id}", _encode(entry))
