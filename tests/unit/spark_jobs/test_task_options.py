import re
from dataclasses import replace
from pathlib import Path

import pytest

from backends.addresses import Address
from backends.settings import RedisSettings
from dispatcher.model.errors import InvalidInput, Unreachable
from dispatcher.model.tier import Tier
from spark_jobs.session.servers import given_values, servers_of, values_of
from spark_jobs.source.task_options import OWN_OPTIONS, TASK_FIELDS, check_task, parse_options, task_id
from tests.unit.spark_jobs.tables import TASK


def test_options_are_the_fields_of_a_task() -> None:
    options = parse_options(
        {
            **TASK, "channel": "http", "ttl_s": "2h", "weight": "2.5", "cap": "1000", "chunk": "100",
            "max_attempts": "3", "expected_targets": "5000", "start_at": "2026-12-01T08:00:00+01:00",
        }
    )  # fmt: skip
    task = options.push_task("sale")
    assert (task.id, task.app, task.tier, task.channel, task.message) == (
        "sale", "shop", Tier.HIGH, "http", {"body": "Sale!"},
    )  # fmt: skip
    assert (task.ttl_s, task.weight, task.cap, task.chunk, task.max_attempts) == (7200, 2.5, 1000, 100, 3)
    assert (task.expected_targets, task.start_ms, task.hold_until_sealed) == (5000, 1_796_108_400_000, True)


def test_options_have_the_names_of_a_push_task() -> None:
    given = {**TASK, "hold_until_sealed": "true", "messages": '{"DE": {"title": "Angebot"}}', "split": "language"}
    assert parse_options(given).push_task("sale", ["de"]).message == {"title": "Angebot"}


def test_a_message_may_be_an_object() -> None:
    assert parse_options({**TASK, "message": '{"title": "Sale"}'}).push_task("sale").message == {"title": "Sale"}


@pytest.mark.parametrize("text", ["{{name}}, hello", " {{name}}", "a {b}"])
def test_a_message_that_begins_with_a_variable_is_a_text(text: str) -> None:
    assert parse_options({"message": text}).fields["message"] == text


def test_split_values_give_fields_and_the_message_of_a_language() -> None:
    given = {
        "id": "sale",
        "channel": "log",
        "message": "Sale!",
        "message.de": "Angebot!",
        "split": "app, tier,language",
    }
    options = parse_options(given)
    german = options.push_task("sale", ["shop", "low", "de"])
    other = options.push_task("sale", ["shop", "low", "fr"])
    assert (german.id, german.app, german.tier, german.message) == (
        "sale.shop.low.de", "shop", Tier.LOW, {"body": "Angebot!"},
    )  # fmt: skip
    assert other.message == {"body": "Sale!"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"cap_bust": "1"}, "There is no option cap_bust. Did you mean cap_burst?"),
        ({"tier": "highest"}, "task: tier: "),
        ({"cap": "many"}, "cap: "),
        ({"message": "{not json"}, "message: begins like a JSON object"),
        ({"oninvalid": "drop"}, "onInvalid: must be fail or refuse"),
        ({"hold_until_sealed": "no"}, "always held"),
        ({"messages": "Hallo"}, "messages: must be a mapping"),
        ({"refused": "-1"}, "refused: must be a number of rows"),
        ({"split": "app"}, "app: is given, and a split column too"),
        ({"pulsar.url": "nowhere"}, "option pulsar: url"),
        ({"app": ""}, "The option app is missing"),
        ({"channel": ""}, "The option channel is missing; name fcm, apns"),
        ({"message": ""}, "The option message is missing"),
    ],
)
def test_a_bad_option_is_told_in_one_line(options: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidInput) as error:
        check_task(parse_options({**TASK, **options}), "sale")
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_split_columns_stand_for_options() -> None:
    options = {name: text for name, text in TASK.items() if name not in ("app", "tier", "channel", "message")}
    check_task(parse_options({**options, "split": "app,tier,channel,language", "message.de": "Angebot!"}), "sale")


def test_ids_of_parts_are_safe_and_stay_apart() -> None:
    values = ["de", "a.b", "a b", "a_b", "", "x" * 100, "ü"]
    ids = [task_id("sale", [value]) for value in values]
    assert ids[0] == "sale.de"
    assert len(set(ids)) == len(ids)
    assert task_id("sale", ["a.b", "c"]) != task_id("sale", ["a", "b.c"])
    assert all(len(name) < 100 and name.isascii() and " " not in name for name in ids)


def test_settings_of_servers_come_from_the_session_then_the_environment() -> None:
    env = {"FAIRLANE_PULSAR_URL": "pulsar://env:1", "FAIRLANE_REDIS_PREFIX": "env"}
    values = given_values({"spark.fairlane.redis.prefix": "conf", "spark.fairlane.pulsar.token": "secret"}, env)
    assert values == {"pulsar.url": "pulsar://env:1", "redis.prefix": "conf", "pulsar.token": "secret"}
    servers = servers_of(values)
    assert (servers.pulsar.url, servers.redis.prefix) == ("pulsar://env:1", "conf")
    assert "secret" not in repr(servers)
    assert values_of(servers) == {**values, "producer.memory_mib": "64"}


def test_a_job_is_not_sent_to_what_listens_where_the_local_stack_was() -> None:
    """The values are texts: on the executors nothing tells that the server has ended."""
    ended = Address("redis://127.0.0.1:1/0", "of the local stack", stopped=True)
    servers = servers_of({"pulsar.url": "pulsar://there:1"})
    with pytest.raises(Unreachable, match="Redis of the local stack"):
        values_of(replace(servers, redis=RedisSettings(url=ended)))


def test_the_document_names_every_option() -> None:
    text = (Path(__file__).parents[3] / "docs" / "spark.md").read_text(encoding="utf-8")
    table = text.partition("## Options")[2].partition("## ")[0]
    named = {name.lower() for name in re.findall(r"`([\w.]+)`", table)}
    assert {*TASK_FIELDS, *OWN_OPTIONS} <= named


@pytest.mark.parametrize(
    ("value", "body"), [("iw", "he"), ("he-IL", "he"), ("zh_TW_#Hant", "hant"), ("zh-HK", "hant"), ("NO", "nb")]
)
def test_a_language_of_a_split_column_may_be_spelled_in_any_way(value: str, body: str) -> None:
    texts = {"message.he": "he", "message.zh-tw": "hant", "messages": '{"zh-Hant": "hant", "no": {"body": "nb"}}'}
    options = parse_options({**TASK, **texts, "split": "language"})
    assert options.push_task("sale", [value]).message == {"body": body}
