"""The facts a server reports about itself: whether it may be used, and whether it is the one that the view knows."""

import pytest

from backends.redis.faults import IsCluster, IsSentinel, NotPrimary, ServerFault
from backends.redis.view import ServerRun
from dispatcher.model.errors import InvalidInput, Refused, Unreachable

PRIMARY = b"# Server\r\nrun_id:abc\r\nrole:master\r\nmaster_replid2:0000\r\nsecond_repl_offset:-1\r\n"
PROMOTED = PRIMARY.replace(b"0000", b"ffff").replace(b"-1", b"1636")


@pytest.mark.parametrize(
    ("info", "fault", "error"),
    [
        (b"redis_mode:cluster\r\nrole:master", IsCluster, Refused),
        (b"server_mode:cluster\r\nrole:slave", IsCluster, Refused),
        (b"run_id:a\r\nrole:master\r\ncluster_enabled:1", IsCluster, Refused),
        (b"redis_mode:sentinel\r\nrun_id:a", IsSentinel, InvalidInput),
        (b"server_mode:sentinel", IsSentinel, InvalidInput),
        (b"redis_mode:standalone\r\nrole:slave", NotPrimary, Unreachable),
    ],
)
def test_what_is_no_single_primary_is_refused(info: bytes, fault: type[ServerFault], error: type[Exception]) -> None:
    with pytest.raises(fault) as refused:
        ServerRun.of(info)
    assert refused.value.kind is error
    assert refused.value.next_step


def test_a_server_that_says_less_is_used() -> None:
    """A proxy may leave out most of it."""
    run = ServerRun.of(b"", b"# Replication", b"")
    assert (run.run_id, run.promotion) == (b"", b"")
    assert not run.differs(b"abc", None)


@pytest.mark.parametrize(
    ("info", "run_id", "promotion", "differs"),
    [
        (PRIMARY, b"abc", b"", False),
        (PRIMARY, b"other", b"", True),
        (PRIMARY, None, None, False),  # there is no view
        (PROMOTED, b"abc", b"ffff:1636", False),
        (PROMOTED, b"abc", b"", True),  # it was a replica meanwhile
        (PROMOTED, b"abc", b"eeee:1636", True),
        (PROMOTED, b"abc", b"ffff:1635", True),
        (PROMOTED, b"other", b"ffff:1636", True),
        (PRIMARY, b"abc", b"ffff:1636", False),  # it forgot, since it had no replica for an hour
    ],
)
def test_another_run_or_another_promotion_is_noticed(
    info: bytes, run_id: bytes | None, promotion: bytes | None, *, differs: bool
) -> None:
    assert ServerRun.of(info).differs(run_id, promotion) is differs
