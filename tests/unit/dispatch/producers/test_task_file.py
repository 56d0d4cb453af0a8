"""Files of tasks: fields of PushTask and an audience each; what is wrong is named before anything is submitted."""

from pathlib import Path

import pytest

from dispatcher.model.errors import InvalidInput
from dispatcher.model.task import Target
from dispatcher.model.tier import Tier
from producers.files.task_file import read_task_file

EXAMPLES = Path(__file__).parents[4] / "examples"


def written(folder: Path, text: str) -> Path:
    (folder / "audience.csv").write_text("app,token\nshop,one\nnews,two\nshop,three\n")
    path = folder / "tasks.yaml"
    path.write_text(text)
    return path


def test_yaml_with_files_filters_limits_and_lists(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        """
tasks:
  - {id: a, app: shop, tier: high, channel: log, message: Hi, ttl_s: 1h,
     targets: audience.csv, filter: {app: shop}, limit: 1}
  - {app: news, tier: low, channel: log, message: {title: T}, targets: [one, {target: two, variables: {n: 1}}]}
""",
    )
    first, second = read_task_file(path)
    assert (first.task.id, first.task.tier, first.task.ttl_s) == ("a", Tier.HIGH, 3_600)
    assert list(first.targets) == ["one"]
    assert list(second.targets) == ["one", Target("two", {"n": 1})]
    assert first.name.endswith("tasks.yaml: task 1 (a)")


@pytest.mark.parametrize(
    "text",
    [
        '[{"app": "shop", "tier": "high", "channel": "log", "message": "Hi", "targets": ["one"]}]',
        "app: shop\ntier: high\nchannel: log\nmessage: Hi\ntargets: [one]\n",
    ],
)
def test_a_file_may_be_a_bare_list_or_a_single_task(tmp_path: Path, text: str) -> None:
    assert [list(job.targets) for job in read_task_file(written(tmp_path, text))] == [["one"]]


def test_the_example_holds_what_it_says() -> None:
    jobs = read_task_file(EXAMPLES / "tasks.yaml")
    assert len(jobs) == 9
    for job in jobs:
        assert len(list(job.targets)) == job.task.expected_targets
    assert {job.task.tier for job in jobs} == set(Tier)
    with (EXAMPLES / "devices.csv").open() as devices:
        assert sum(1 for _ in devices) > 60_000


def test_everything_wrong_is_named_with_task_and_field(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        """
- {id: a, app: shop, tier: urgent, channel: log, message: Hi, targets: [x]}
- {id: b, app: shop, tier: low, channel: log, message: Hi, targets: none.csv}
- {id: c, app: shop, tier: low, channel: log, message: Hi}
- {id: d, app: shop, tier: low, channel: log, message: Hi, targets: [x], limit: 3}
- {id: e, app: shop, tier: low, channel: log, message: Hi, targets: audience.csv, filter: x}
- {id: f, app: shop, tier: low, channel: log, message: Hi, targets: audience.csv, limit: many}
- just text
- {id: g, app: shop, tier: low, channel: log, message: Hi, targets: [x], colour: red}
- {id: h, app: shop, tier: low, channel: log, message: Hi, targets: [x]}
- {id: h, app: shop, tier: low, channel: log, message: Hi, targets: [x]}
- {id: i, app: shop, tier: low, message: Hi, targets: [x]}
- {id: j, app: shop, tier: low, channel: ~, message: Hi, targets: [x]}
""",
    )
    with pytest.raises(InvalidInput) as caught:
        read_task_file(path)
    lines = [line.removeprefix(f"{path}: ") for line in str(caught.value).splitlines()]
    starts = [
        "task 1 (a): tier:",
        "task 2 (b): targets:",
        "task 3 (c): targets:",
        "task 4 (d): filter, limit:",
        "task 5 (e): filter:",
        "task 6 (f): limit:",
        "task 7: has no fields",
        "task 8 (g): colour:",
        "task 11 (i): channel: is missing; name fcm,",
        "task 12 (j): channel: is missing; name fcm,",
        "task 10 (h): id:",
    ]
    assert [line[: len(start)] for line, start in zip(lines, starts, strict=True)] == starts


EMPTY = ["", "tasks: []", "tasks: 3", "[", "a: [b"]
CIRCLES = ["&a [*a]", "&a {tasks: [*a]}", "a: &a [*a]", "- {message: &m {m: *m}}", "? [a]\n: b"]


@pytest.mark.parametrize("text", EMPTY + CIRCLES)
def test_a_file_without_tasks_or_that_goes_round_in_circles_is_invalid(tmp_path: Path, text: str) -> None:
    with pytest.raises(InvalidInput, match=r"tasks\.yaml"):
        read_task_file(written(tmp_path, text))


def test_a_missing_file_is_invalid(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="cannot be read"):
        read_task_file(tmp_path / "none.yaml")


def test_json_may_be_indented_with_tabs(tmp_path: Path) -> None:
    path = tmp_path / "tasks.json"
    path.write_text(
        '{\n\t"app": "shop",\t"tier": "high",\t"channel": "log",\n\t"message": "a\\tb",\n'
        '\t"cap": null, "targets": ["one"]\n}'
    )
    (job,) = read_task_file(path)
    assert (job.task.message, job.task.cap, job.targets) == ({"body": "a\tb"}, None, ["one"])


@pytest.mark.parametrize(
    ("line", "field", "value"),
    [
        ("channel: null", "channel", "null"),
        ("channel: 010", "channel", "010"),
        ("id: 2026", "id", "2026"),
        ("id: 2026-11-23", "id", "2026-11-23"),
        ("id: null", "id", None),
        ("app: yes", "app", "yes"),
        ("message: no", "message", {"body": "no"}),
        ("message: {on: yes, n: 1, day: 2026-11-23}", "message", {"on": True, "n": 1, "day": "2026-11-23"}),
        ("ttl_s: 90", "ttl_s", 90),
        ("weight: 2.5", "weight", 2.5),
        ("cap: 0100", "cap", 100),
        ("hold_until_sealed: yes", "hold_until_sealed", True),
        ("start_at: 2030-01-31T18:00:00Z", "start_ms", 1_896_112_800_000),
    ],
)
def test_a_field_is_what_is_written(tmp_path: Path, line: str, field: str, value: object) -> None:
    """YAML takes `null`, `yes`, `2026` and `2026-11-23` for something else than texts."""
    fields = {
        "app": "app: shop",
        "tier": "tier: high",
        "channel": "channel: log",
        "message": "message: Hi",
        "targets": "targets: [one]",
    }
    text = "\n".join({**fields, line.partition(":")[0]: line}.values())
    (job,) = read_task_file(written(tmp_path, text))
    assert getattr(job.task, field) == value


def test_targets_and_filters_are_what_is_written(tmp_path: Path) -> None:
    (tmp_path / "flags.csv").write_text("target,on\na,yes\nb,no\nc,007\nd,null\n")
    text = "{app: a, tier: low, channel: log, message: m, targets: flags.csv, filter: {on: [yes, 007, null]}}\n"
    (job,) = read_task_file(written(tmp_path, f"- {text}"))
    assert list(job.targets) == ["a", "c", "d"]
    (job,) = read_task_file(
        written(tmp_path, "{app: a, tier: low, channel: log, message: m, targets: [0123, yes, 1_000]}")
    )
    assert list(job.targets) == ["0123", "yes", "1_000"]


@pytest.mark.parametrize(
    ("written_as", "value"),
    [
        *(("01234", "01234"), ("12:30", "12:30"), ("1_000", "1_000"), ("0x1F", "0x1F"), ("-010", "-010")),
        *(
            ("7", 7),
            ("0", 0),
            ("-7", -7),
            ("0.5", 0.5),
            ("1.5e+3", 1500.0),
            ("yes", True),
            ("2026-12-01", "2026-12-01"),
        ),
    ],
)
def test_a_number_that_json_does_not_have_is_a_text(written_as: str, value: object, tmp_path: Path) -> None:
    text = (
        f"{{app: a, tier: low, channel: log, message: {{n: {written_as}}}, targets: [{{target: t, v: {written_as}}}]}}"
    )
    (job,) = read_task_file(written(tmp_path, text))
    assert (job.task.message["n"], list(job.targets)) == (value, [Target("t", {"v": value})])


def test_norwegian_is_no_truth_value(tmp_path: Path) -> None:
    text = "{app: a, tier: low, channel: fcm, message: m, locales: {no: Hei}, targets: [{target: t, lang: no}]}"
    (job,) = read_task_file(written(tmp_path, text))
    assert (list(job.targets), list(job.task.locales)) == ([Target("t", {"lang": "no"})], ["no"])


def test_merged_mappings_count_too(tmp_path: Path) -> None:
    text = "base: &base {app: yes, tier: low, channel: log, message: {a: &a {x: 1}, b: {<<: *a}}}\n"
    text += "tasks:\n- {<<: *base, id: 1, targets: [x]}\n- {<<: *base, id: 2, targets: [y]}\n"
    first, second = read_task_file(written(tmp_path, text))
    assert (first.task.id, first.task.app, second.task.id) == ("1", "yes", "2")
    assert second.task.message == {"a": {"x": 1}, "b": {"x": 1}}


def test_a_wrong_field_says_which_there_are(tmp_path: Path) -> None:
    text = "{app: a, tier: low, channel: log, message: m, targets: [x], ttl: 1h, foo: 1, split: [app]}"
    with pytest.raises(InvalidInput) as caught:
        read_task_file(written(tmp_path, text))
    foo, split, ttl = str(caught.value).splitlines()
    assert "task 1: foo: there is no such field; there are id, app, tier, channel" in foo
    assert "split: is for `fairlane ingest`" in split
    assert "did you mean ttl_s?" in ttl
