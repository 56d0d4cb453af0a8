"""Submitting to a real Pulsar and Redis: all targets arrive, exactly, and the registry says so."""

import asyncio
import os
from collections.abc import AsyncIterator, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any

import pulsar
import pytest

from backends.pulsar.admin import PulsarAdmin
from backends.pulsar.record_topics import ControlTopic
from backends.redis.view import open_view
from dispatcher.model.errors import AudienceMismatch, BeingSubmitted, TaskEnded, Unreachable
from dispatcher.model.task import PushTask, Target
from dispatcher.wire.envelope import decode_message
from dispatcher.wire.topics import SUBSCRIPTION, Topics
from fairlane.settings import Settings
from producers.client import PushClient
from tests.integration.pulsar_helpers import Tenant, envelopes_in
from tests.integration.worker_crew import on_redis


def push(**fields: Any) -> PushTask:
    return PushTask(**{"id": "t", "app": "shop", "tier": "high", "channel": "null", "message": "Hi", **fields})


def test_all_targets_arrive_once_in_order_with_all_that_is_needed_to_send_them(
    api: PushClient, client: pulsar.Client, admin: PulsarAdmin, names: Topics
) -> None:
    targets = [Target(f"target-{number}", {"name": "Ann"} if number % 2 else None) for number in range(1_001)]
    handle = api.submit(push(message={"title": "T"}, chunk=100, max_attempts=3, channel="http"), targets)
    lane = names.own_lane("t")
    made = envelopes_in(client, lane)
    assert [target for envelope in made for target in envelope.targets] == [target.address for target in targets]
    own = [variables for envelope in made for variables in envelope.variables or [None] * envelope.size]
    assert own == [target.variables for target in targets]
    assert [envelope.identity for envelope in made] == [("t", "0", sequence, 0) for sequence in range(11)]
    assert decode_message(made[0].message) == {"title": "T"}
    assert (made[0].app, made[0].channel, made[0].max_attempts) == ("shop", "http", 3)
    assert admin.backlog(lane, SUBSCRIPTION) > 0
    view = handle.progress()
    assert (view.sealed, view.targets.total, view.targets.pending, view.state) == (True, 1_001, 1_001, "running")
    assert (view.lane, view.shared, view.chunk, view.refused) == (lane, False, 100, 0)


def test_the_same_again_is_verified_and_another_audience_or_task_refused(
    api: PushClient, client: pulsar.Client, names: Topics
) -> None:
    api.submit(push(), ["a", "b"])
    again = api.submit(push(), iter(["a", "b"])).result
    assert again is not None
    assert again.accepted == 2
    for other in (push(), ["a", "c"]), (push(message="Other"), ["a", "b"]):
        with pytest.raises(AudienceMismatch):
            api.submit(*other)
    assert len(envelopes_in(client, names.own_lane("t"))) == 2


def test_a_task_that_an_incomplete_registry_does_not_know_is_read_from_the_control_topic(
    fresh_settings: Settings, api: PushClient, client: pulsar.Client, names: Topics
) -> None:
    api.submit(push(), ["a", "b"])
    with closing(open_view(fresh_settings.redis)) as view:
        view.wipe()
    with pytest.raises(AudienceMismatch):
        api.submit(push(), ["c"])
    assert api.submit(push(), ["a", "b"]).id == "t"
    assert len(envelopes_in(client, names.own_lane("t"))) == 2


PAIRS = int(os.environ.get("FAIRLANE_TEST_PAIRS", "12"))


@pytest.mark.timeout(60 + 5 * PAIRS)
def test_of_two_audiences_under_one_id_at_once_the_accepted_one_is_the_delivered_one(
    fresh_settings: Settings, client: pulsar.Client, names: Topics
) -> None:
    def submitted(of: PushClient, task: PushTask, targets: Iterable[str]) -> int | None:
        """How many were accepted; None: it was refused, with the words for it."""
        try:
            result = of.submit(task, targets).result
        except (AudienceMismatch, BeingSubmitted):
            return None
        return result.accepted if result is not None else None

    with (
        PushClient.connect(fresh_settings) as one,
        PushClient.connect(fresh_settings) as two,
        ThreadPoolExecutor(2) as pool,
    ):
        for number in range(PAIRS):
            task = push(id=f"pair-{number}", chunk=7 + number % 3)
            audiences = [f"one-{n}" for n in range(50 + number)], [f"two-{n}" for n in range(80)]
            futures = [
                pool.submit(submitted, one, task, audiences[0] if number % 2 else iter(audiences[0])),
                pool.submit(submitted, two, task, iter(audiences[1]) if number % 3 else audiences[1]),
            ]
            accepted = [future.result() for future in futures]
            made = {
                envelope.identity: envelope.targets
                for envelope in envelopes_in(client, names.own_lane(f"pair-{number}"))
            }
            delivered = [target for identity in sorted(made) for target in made[identity]]
            won = [audience for audience, count in zip(audiences, accepted, strict=True) if count is not None]
            assert won == [delivered]


def test_the_same_audience_twice_at_once_is_accepted_once(fresh_settings: Settings, tenant: Tenant) -> None:
    targets = [f"target-{number}" for number in range(150)]
    with (
        PushClient.connect(fresh_settings) as one,
        PushClient.connect(fresh_settings) as two,
        ThreadPoolExecutor(2) as pool,
    ):
        futures = [pool.submit(one.submit, push(), targets), pool.submit(two.submit, push(), iter(targets))]
        assert [future.result().result.accepted for future in futures] == [150, 150]  # type: ignore[union-attr]
    assert sorted(
        target for envelope in envelopes_in(tenant.client, tenant.names.own_lane("t")) for target in envelope.targets
    ) == (sorted(targets))


def test_a_cancelled_task_ends_its_submission(api: PushClient) -> None:
    def endless() -> Iterator[str]:
        number = 0
        while True:
            number += 1
            if number == 10_000:
                api.task("t").cancel()
            yield f"target-{number}"

    result = api.submit(push(chunk=500), endless()).result
    assert result is not None
    assert result.stopped == "cancelled"
    with pytest.raises(TaskEnded):
        api.submit(push(chunk=500), ["a"])


def test_without_redis_no_new_task_is_admitted_and_nothing_is_stored(fresh_settings: Settings, tenant: Tenant) -> None:
    without = on_redis(fresh_settings, "redis://127.0.0.1:1/0")
    with PushClient.connect(without) as client, pytest.raises(Unreachable, match=r"Redis at .* cannot be reached"):
        client.submit(push(id=None), ["a"])
    reader = ControlTopic(tenant.client, tenant.names).reader()
    records = reader.read(10, 1.0)
    reader.close()
    assert records == []


def test_looking_at_tasks_needs_no_pulsar(fresh_settings: Settings, api: PushClient) -> None:
    api.submit(push(), ["a"])
    away = fresh_settings.pulsar.model_copy(update={"url": "pulsar://127.0.0.1:1"})
    with PushClient.connect(fresh_settings.model_copy(update={"pulsar": away})) as without:
        assert without.task("t").progress().targets.total == 1
        assert len(without.tasks()) == 1


def test_async_callers_are_served(fresh_settings: Settings, client: pulsar.Client, names: Topics) -> None:
    async def targets() -> AsyncIterator[str]:
        for number in range(10_000):
            if number % 1_000 == 0:
                await asyncio.sleep(0)
            yield f"target-{number}"

    async def use() -> None:
        async with PushClient.connect_async(fresh_settings) as push_client:
            first, second = await asyncio.gather(
                push_client.submit(push(id="t1"), targets()),
                push_client.submit(push(id="t2"), ["a", "b b"]),
            )
            assert first.result is not None
            assert second.result is not None
            assert (first.result.accepted, second.result.accepted, second.result.refused) == (10_000, 1, 1)
            await first.pause()
            assert (await first.progress()).state == "paused"
            assert [failure async for failure in await first.failures()] == []

    asyncio.run(use())
    made = envelopes_in(client, names.own_lane("t1"))
    assert [t for envelope in made for t in envelope.targets] == [f"target-{number}" for number in range(10_000)]
