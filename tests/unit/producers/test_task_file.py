"""Files of tasks: fields of PushTask and an audience each; what is wrong is named before anything is submitted."""

from pathlib import Path

import pytest

from dispatcher.errors import InvalidInput
from dispatcher.task import Target
from dispatcher.tier import Tier
from producers.task_file import read_task_file

EXAMPLES = Path(__file__).parents[3] / "examples"


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
  - {id: a, app: shop, tier: high, message: Hi, ttl_s: 1h, targets: audience.csv, filter: {app: shop}, limit: 1}
  - {app: news, tier: low, message: {title: T}, targets: [one, {target: two, variables: {n: 1}}]}
""",
    )
    first, second = read_task_file(path)
    assert (first.task.id, first.task.tier, first.task.ttl_s) == ("a", Tier.HIGH, 3_600)
    assert list(first.targets) == ["one"]
    assert list(second.targets) == ["one", Target("two", {"n": 1})]
    assert first.name.endswith("tasks.yaml: task 1 (a)")


def test_json_and_a_bare_list(tmp_path: Path) -> None:
    path = written(tmp_path, '[{"app": "shop", "tier": "high", "message": "Hi", "targets": ["one"]}]')
    assert [list(job.targets) for job in read_task_file(path)] == [["one"]]


def test_the_example_holds_what_it_says() -> None:
    jobs = read_task_file(EXAMPLES / "tasks.yaml")
    assert len(jobs) == 9
    for job in jobs:
        assert len(list(job.targets)) == job.task.expected_targets


def test_everything_wrong_is_named_with_task_and_field(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        """
- {id: a, app: shop, tier: urgent, message: Hi, targets: [x]}
- {id: b, app: shop, tier: low, message: Hi, targets: none.csv}
- {id: c, app: shop, tier: low, message: Hi}
- {id: d, app: shop, tier: low, message: Hi, targets: [x], limit: 3}
- {id: e, app: shop, tier: low, message: Hi, targets: audience.csv, filter: x}
- {id: f, app: shop, tier: low, message: Hi, targets: audience.csv, limit: many}
- just text
- {id: g, app: shop, tier: low, message: Hi, targets: [x], colour: red}
- {id: h, app: shop, tier: low, message: Hi, targets: [x]}
- {id: h, app: shop, tier: low, message: Hi, targets: [x]}
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
        "task 7: is not a mapping",
        "task 8 (g): colour:",
        "task 10 (h): id:",
    ]
    assert [line[: len(start)] for line, start in zip(lines, starts, strict=True)] == starts


@pytest.mark.parametrize("text", ["", "tasks: []", "tasks: 3", "[", "a: [b"])
def test_a_file_without_tasks_is_invalid(tmp_path: Path, text: str) -> None:
    with pytest.raises(InvalidInput, match=r"tasks\.yaml"):
        read_task_file(written(tmp_path, text))


def test_a_missing_file_is_invalid(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="cannot be read"):
        read_task_file(tmp_path / "none.yaml")
