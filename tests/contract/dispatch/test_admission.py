"""Settings of the service and limits of apps, over every Redis and Valkey there is on this machine."""

from concurrent.futures import ThreadPoolExecutor

from backends.redis.registry.registry import Registry
from backends.redis.view import RedisView
from dispatcher.model.pools import Cap, Limits
from dispatcher.model.view import Admission
from dispatcher.wire.control import ControlRecord, TaskRecord
from tests.contract.registry_records import placed, position, ready, sealed, setting, task_record
from tests.integration.worker_crew import eventually
from tests.records import checkpoint, finished

ADMITTED = Admission()


def new(task: str, expected: int = 10, app: str = "shop") -> TaskRecord:
    return task_record(task, app=app, expected_targets=expected)


def set_to(registry: Registry, **fields: str) -> None:
    for number, (field, value) in enumerate(fields.items(), 1):
        registry.control.apply(position(number), setting(field.replace("__", ":"), value))


def accept(registry: Registry, number: int, task: str, expected: int = 10, app: str = "shop") -> Admission:
    """As a submission does."""
    record = new(task, expected, app)
    admission = registry.submissions.admit(record)
    if admission == ADMITTED:
        registry.control.apply(position(number), record)
    return admission


# ---------------------------------------------------------------------------------------- settings


def test_every_setting_is_read_back(registry: Registry) -> None:
    stored = {
        "capacity": "5000:100", "cap:channel:http": "700", "cap:app:shop": "300:20", "cap:app_channel:shop/http": "40",
        "cap:channel:log": "0", "channel_paused:apns": "1", "channel_paused:http": "0", "sharing": "apps",
        "app_weight:shop": "2500", "app_weight:news": "1000", "limit:tasks:shop": "3", "limit:targets:*": "900",
        "limit:tasks:news": "0",
    }  # fmt: skip
    for number, (field, value) in enumerate(stored.items()):
        registry.control.apply(position(number), setting(field, value))
    found = registry.service.globals()
    assert (found.capacity, found.burst, found.sharing) == (5_000, 100, "apps")
    assert found.caps == {"channel/http": Cap(700), "app/shop": Cap(300, 20), "app_channel/shop/http": Cap(40)}
    assert found.paused_channels == {"apns"}
    assert (found.app_weights, found.app_weight("news")) == ({"shop": 2.5}, 1)
    assert (found.limits_of("shop"), found.limits_of("news")) == (Limits(3, 900), Limits(0, 900))


def test_an_app_named_like_a_position_is_an_app(registry: Registry) -> None:
    """The position that set a field is kept beside it."""
    set_to(registry, cap__app__a="5", cap__app__a_pos="7")
    assert registry.service.globals().caps == {"app/a": Cap(5), "app/a_pos": Cap(7)}
    registry.control.apply(position(3), setting("cap:app:a", "6"))
    registry.control.apply(position(2), setting("cap:app:a", "4"))
    assert registry.service.globals().caps == {"app/a": Cap(6), "app/a_pos": Cap(7)}


# ---------------------------------------------------------------------------------------- limits


def test_without_a_limit_everything_is_admitted_and_nothing_kept(registry: Registry, view: RedisView) -> None:
    assert registry.submissions.admit(new("t", 10**12)) == ADMITTED
    assert not list(view.client.scan_iter("test:*"))


def test_live_tasks_are_limited_and_ended_ones_make_room(registry: Registry) -> None:
    set_to(registry, limit__tasks__shop="2")
    assert [accept(registry, n, f"t{n}") for n in range(2)] == [ADMITTED] * 2
    assert accept(registry, 5, "t5") == Admission("tasks", 2, 2)
    assert accept(registry, 6, "other", app="news") == ADMITTED
    registry.control.apply(position(7), finished("t0", 1, at_ms=3))
    assert accept(registry, 8, "t5") == ADMITTED


def test_the_limit_of_every_app_is_of_each_without_its_own(registry: Registry) -> None:
    set_to(registry, **{"limit:tasks:*": "1", "limit:tasks:shop": "2"})
    assert [accept(registry, n, f"t{n}").reached for n in range(3)] == ["", "", "tasks"]
    assert [accept(registry, 5 + n, f"n{n}", app="news").reached for n in range(2)] == ["", "tasks"]


def test_queued_targets_are_what_is_expected_or_published_less_what_is_settled(
    registry: Registry, view: RedisView
) -> None:
    set_to(registry, limit__targets__shop="1000")
    assert accept(registry, 2, "t1", 400) == ADMITTED
    assert accept(registry, 3, "t2", -1) == ADMITTED
    registry.control.apply(position(4), checkpoint("t2", 3, targets=300))

    def there_is(queued: int) -> bool:
        return accept(registry, 5, "huge", 10**9) == Admission("targets", 1_000, queued)

    eventually(lambda: there_is(700), 5, "what is published is counted")
    view.command("HSET", view.keys.task("t1"), "finals", "150")
    registry.control.apply(position(6), sealed("t2", 250))
    eventually(lambda: there_is(500), 5, "and what is settled")
    assert accept(registry, 7, "t3", 501) == Admission("targets", 1_000, 500)
    assert accept(registry, 8, "t3", 500) == ADMITTED
    assert accept(registry, 9, "t4", 1).reached == "targets"


def test_submissions_at_once_do_not_pass_a_limit_together(registry: Registry) -> None:
    set_to(registry, limit__tasks__shop="5", limit__targets__shop="1000")
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda n: registry.submissions.admit(new(f"t{n}", 300)).reached, range(24)))
    assert answers.count("") == 3
    assert set(answers) == {"", "targets"}
    set_to(registry, **{"limit:targets:news": "0", "limit:tasks:news": "4"})
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda n: registry.submissions.admit(new(f"n{n}", 300, "news")).reached, range(24)))
    assert answers.count("") == 4


def test_what_was_admitted_once_is_admitted_again(registry: Registry) -> None:
    set_to(registry, limit__tasks__shop="1")
    assert registry.submissions.admit(new("t1")) == ADMITTED
    assert registry.submissions.admit(new("t1")) == ADMITTED
    assert registry.submissions.admit(new("t2")).reached == "tasks"
    registry.control.apply(position(2), new("t1"))
    assert registry.submissions.admit(new("t1")) == ADMITTED
    assert registry.submissions.admit(new("t2")).reached == "tasks"


def test_a_reservation_without_a_record_ends_by_itself(registry: Registry, view: RedisView) -> None:
    set_to(registry, limit__tasks__shop="1")
    assert registry.submissions.admit(new("t1")) == ADMITTED
    assert 0 < view.command("PTTL", view.keys.admitted("shop")) <= 10_000
    view.command("HSET", view.keys.admitted("shop"), "t1", f"{view.now_ms()}:10")
    assert registry.submissions.admit(new("t2")) == ADMITTED


def test_reservations_and_sums_from_before_the_clock_was_set_back_do_not_count(
    registry: Registry, view: RedisView
) -> None:
    set_to(registry, limit__tasks__shop="2", limit__targets__shop="1000")
    assert accept(registry, 3, "t1", 900) == ADMITTED
    registry.control.apply(position(4), finished("t1", 900, at_ms=3))
    ahead_ms = view.now_ms() + 3_600_000
    view.command(
        "HSET", view.keys.admitted("shop"), "", f"{ahead_ms}:900", "u1", f"{ahead_ms}:10", "u2", f"{ahead_ms}:10"
    )
    assert registry.submissions.admit(new("t2", 500)) == ADMITTED
    assert registry.submissions.admit(new("t3", 500)) == ADMITTED
    assert registry.submissions.admit(new("t4", 500)).reached == "tasks"


def test_a_view_being_rebuilt_does_not_admit_what_it_cannot_count(registry: Registry, view: RedisView) -> None:
    set_to(registry, limit__tasks__shop="1")
    ready(view)
    view.command("HSET", view.keys.epoch, "ready", "0")
    assert registry.submissions.admit(new("t1")) == Admission("view")
    assert registry.submissions.admit(new("n1", app="news")) == ADMITTED
    ready(view)
    assert registry.submissions.admit(new("t1")) == ADMITTED


def test_a_rebuilt_view_counts_the_same(registry: Registry, view: RedisView) -> None:
    records: list[ControlRecord] = [
        setting("limit:tasks:shop", "2"), new("t1"), new("t2"), new("t3"),
        finished("t2", 1, at_ms=3),
    ]  # fmt: skip
    stored = placed(*records)
    registry.control.apply_all(stored)
    assert registry.submissions.admit(new("t4")) == Admission("tasks", 2, 2)
    view.wipe()
    registry.control.apply_all(stored[::-1])
    assert registry.submissions.admit(new("t4")) == Admission("tasks", 2, 2)


def test_of_two_apps_that_claim_one_id_only_the_first_in_the_topic_has_the_task(registry: Registry) -> None:
    set_to(registry, **{"limit:tasks:*": "1"})
    registry.control.apply(position(9), new("t1", app="news"))
    registry.control.apply(position(8), new("t1", app="shop"))
    assert registry.submissions.admit(new("t2", app="shop")).reached == "tasks"
    assert registry.submissions.admit(new("t2", app="news")) == ADMITTED
