"""A replica takes the place of Redis, and may lack the claims of the last second."""

import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from backends.redis.client import lua_folder
from backends.redis.epochs import Epochs
from backends.redis.keys import REPORT_MS
from backends.redis.view import CLAIM_MAX_MS, open_view
from backends.settings import RedisSettings
from benchmarks.redis_pair import RedisPair, redis_pair
from benchmarks.redis_server import binaries
from fairlane import PushClient, Settings
from lab.simulator.world import World
from tests.contract.ledger_worlds import ask_own, request, task_record
from tests.contract.registry_records import epoch_of
from tests.integration.worker_crew import audience, crew, delivered_at_s, eventually, on_redis, push
from tests.virtual_clock import VirtualClock

TARGETS = 10_000
IN_HAND_S = 3.0
"""A lease lasts 2 s: what was granted before is sent by then."""


@pytest.fixture(params=sorted(binaries()))
def pair(request: pytest.FixtureRequest) -> Iterator[RedisPair]:
    with redis_pair(binaries()[request.param]) as pair:
        yield pair


def test_what_the_replica_lacks_of_the_last_second_is_not_granted_again(pair: RedisPair) -> None:
    """It knows the scripts, since they were loaded there too."""
    with closing(open_view(RedisSettings(url=pair.url, prefix="test"))) as view:
        world = World(VirtualClock(), view=view)
        world.write(task_record("t"))
        assert world.ledger.lease(request(1, ask_own("t", 0, 1))).ready
        eventually(pair.has_all, 20, "the replica has the view")
        pair.stop_replication()
        with closing(open_view(RedisSettings(url=pair.replica.url, prefix="another"))) as other:
            for known in (other.scripts, other.scripts.of(lua_folder("quotas"))):
                known.check()
        assert world.ledger.lease(request(2, ask_own("t", 10, 5))).ready
        pair.fail_over()

        assert not world.ledger.lease(request(3, ask_own("t", 10, 5), worker="other")).ready
        found = epoch_of(Epochs(view))
        assert (found.ready, found.announced, found.marked) == (False, False, False)
        assert CLAIM_MAX_MS - 5_000 < found.wait_ms - REPORT_MS <= CLAIM_MAX_MS, "from when it was noticed"

        with closing(open_view(RedisSettings(url=pair.url, prefix="test"))) as later:
            again = epoch_of(Epochs(later))
            assert again.id == found.id
            assert again.wait_ms <= found.wait_ms, "one that notices later does not make it wait again"


@pytest.mark.timeout(240)
def test_workers_send_nothing_for_the_longest_claim_after_they_notice(fresh_settings: Settings, tmp_path: Path) -> None:
    with redis_pair() as pair:
        settings = on_redis(fresh_settings, pair.url)
        with (
            crew(settings, tmp_path, "w1", "w2") as members,
            PushClient.connect(settings) as client,
            closing(open_view(settings.redis)) as view,
        ):
            client.set_capacity(1_000)
            handle = client.submit(push(), audience(TARGETS))
            eventually(lambda: handle.progress().targets.sent > 1_000, 30, "it is in full swing")
            pair.stop_replication()
            eventually(lambda: handle.progress().targets.sent > 2_000, 30, "the replica lacks some of it")
            pair.fail_over()

            eventually(lambda: "." in epoch_of(Epochs(view)).id, 20, "a worker or this client notices")
            noticed_s = time.time()
            grants_s = noticed_s + epoch_of(Epochs(view)).wait_ms / 1000
            assert grants_s - noticed_s > CLAIM_MAX_MS / 1000 - 5
            members.check_sent_once(handle, audience(TARGETS), 90)
            times = [at_s for at_s, _, _ in delivered_at_s(members)]
            assert not [at_s for at_s in times if noticed_s + IN_HAND_S < at_s < grants_s]
