"""The facts a Redis server reports about itself: whether it may be used, and which run of which server it is."""

import re
from dataclasses import dataclass
from typing import Self

from backends.redis.faults import IsCluster, IsSentinel, NotPrimary

INFO = (("INFO", "server"), ("INFO", "replication"), ("INFO", "cluster"))
"""The commands whose answers `ServerRun.of` reads."""
_FIELD = re.compile(rb"^(\w+):([^\r\n]*)", re.MULTILINE)
_NEVER = b"-1"


@dataclass(frozen=True, kw_only=True)
class ServerRun:
    """One run of one server, and the last time that it became the primary."""

    run_id: bytes
    """Differs after every start of a server, and between two servers. Empty if the server does not say it."""
    promotion: bytes
    """Differs after every promotion of this run; empty if it was not promoted, or that is forgotten: a primary forgets
    it when it has had no replica for an hour."""

    @classmethod
    def of(cls, *answers: bytes) -> Self:
        """Read the answers of the commands in INFO. Raises IsSentinel, IsCluster, or NotPrimary."""
        fields = dict(_FIELD.findall(b"\n".join(answers)))
        mode = fields.get(b"redis_mode") or fields.get(b"server_mode")
        if mode == b"sentinel":
            raise IsSentinel
        if mode == b"cluster" or fields.get(b"cluster_enabled") == b"1":
            raise IsCluster
        if fields.get(b"role") == b"slave":
            raise NotPrimary
        offset = fields.get(b"second_repl_offset", _NEVER)
        promotion = b"" if offset == _NEVER else b"%b:%b" % (fields.get(b"master_replid2", b""), offset)
        return cls(run_id=fields.get(b"run_id", b""), promotion=promotion)

    def differs(self, run_id: bytes | None, promotion: bytes | None) -> bool:
        """Return whether a view of this run id and promotion may lack writes here. None: the view does not say it."""
        if not self.run_id or run_id is None:
            return False
        return run_id != self.run_id or (bool(self.promotion) and promotion not in (None, self.promotion))
