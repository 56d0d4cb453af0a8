from pathlib import Path

import pytest

from dispatcher.model.errors import InvalidInput
from producers.files.task_file import read_task_file
from spark_jobs.ingest.task import read_task

GOOD = "id: sale\napp: shop\ntier: high\nchannel: log\nmessage: {title: Hi}\nttl_s: 1h\n"


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "sale.yaml"
    path.write_text(text)
    return path


def test_a_file_says_what_the_options_of_the_data_source_say(tmp_path: Path) -> None:
    text = GOOD + "variables: [name]\nsplit: [language]\nmessages: {de: Hallo}\nweight: 2\n"
    options = read_task(written(tmp_path, text), {"redis.url": "redis://there"}).options
    task = options.push_task(options.task, ["de"])
    assert (task.id, task.message, task.ttl_s, task.weight) == ("sale.de", {"body": "Hallo"}, 3_600, 2)
    assert (options.variables, options.servers.redis.url) == (("name",), "redis://there")


def test_a_list_of_one_task_is_one_task(tmp_path: Path) -> None:
    text = "tasks:\n- " + GOOD.replace("\n", "\n  ")
    assert read_task(written(tmp_path, text), {}).options.task == "sale"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (GOOD.replace("id: sale\n", ""), "id: is missing"),
        (GOOD.replace("channel: log\n", ""), r"task 1 \(sale\): channel: is missing; name fcm, apns"),
        (GOOD.replace("app: shop\n", ""), r"task 1 \(sale\): app: is missing"),
        (GOOD.replace("high", "urgent"), "tier"),
        (GOOD + "colour: red\n", r"colour: there is no such field; there are id, .*ttl_s"),
        (GOOD + "- x\n", "neither YAML nor JSON"),
        (GOOD + "limit: 5\n", "limit: is for `fairlane task submit`"),
        (GOOD + "targets: [a, b]\n", "targets: is not the name of a table"),
        ("tasks: [{id: a}, {id: b}]\n", "has 2 tasks; `fairlane ingest` makes one"),
        ("", "has no tasks"),
    ],
)
def test_what_is_wrong_is_said_with_the_files_name(tmp_path: Path, text: str, message: str) -> None:
    path = written(tmp_path, text)
    with pytest.raises(InvalidInput, match=message) as caught:
        read_task(path, {})
    assert str(path) in caught.value.cause


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="cannot be read"):
        read_task(tmp_path / "none.yaml", {})


def test_the_file_of_a_submission_is_that_of_an_ingestion(tmp_path: Path) -> None:
    (tmp_path / "people.csv").write_text("target,name\na,Ann\n")
    path = written(
        tmp_path,
        GOOD.replace("sale", "2026").replace("channel: log", "channel: null")
        + "start_at: 2030-01-31T18:00Z\ntargets: people.csv\n",
    )
    (job,) = read_task_file(path)
    ingested = read_task(path, {})
    assert ingested.options.push_task("2026") == job.task.model_copy(update={"hold_until_sealed": True})
    assert ingested.audience == str(tmp_path / "people.csv")
