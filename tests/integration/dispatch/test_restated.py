"""A control topic that has forgotten its beginning still makes the whole view, from what was restated in it."""

from datetime import UTC, datetime, timedelta

from backends.pulsar.admin import PulsarAdmin
from backends.pulsar.client import topics
from backends.redis.view_records import ViewRecords
from dispatcher.wire.control import Restated
from fairlane import PushClient, Settings
from fairlane.worker.connections import open_pulsar, open_redis
from fairlane.worker.rebuild_by_hand import rebuild
from tests.integration.worker_crew import audience, push


def restated(settings: Settings, task: str) -> list[Restated]:
    """Return the records that the housekeeper would write now, and empty the view."""
    redis = open_redis(settings)
    records = ViewRecords(redis.view)
    found = [*records.settings(), *records.of_tasks([task])]
    redis.view.wipe()
    redis.view.close()
    return found


def forget_all_but(settings: Settings, records: list[Restated]) -> None:
    admin, control = PulsarAdmin(settings.pulsar), topics(settings.pulsar).control
    admin.delete_topic(control, force=True)
    admin.create_topic(control)
    admin.close()
    pulsar = open_pulsar(settings.pulsar)
    pulsar.control.append_many(records)
    pulsar.close(5.0)


def test_settings_and_a_task_of_long_ago_are_there_after_a_full_read(fresh_settings: Settings) -> None:
    start = datetime.now(UTC) + timedelta(days=20)
    task = push(tier="medium", start_at=start, cap=40)
    with PushClient.connect(fresh_settings) as client:
        client.set_capacity(800)
        client.pause_channel("log")
        handle = client.submit(task, audience(300))
        handle.set_weight(3)
        before, settings = handle.progress(), client.globals()
    forget_all_but(fresh_settings, restated(fresh_settings, handle.id))
    assert rebuild(fresh_settings, wipe=False, progress=lambda epoch: None, timeout_s=60).ready
    with PushClient.connect(fresh_settings) as client:
        assert client.globals() == settings
        after = client.task(handle.id)
        assert after.progress() == before
        assert (before.state, before.weight, before.cap, before.targets.total) == ("scheduled", 3.0, 40, 300)
        assert client.submit(task.model_copy(update={"id": handle.id}), audience(300)).id == handle.id
