"""The environment of child processes of benchmarks and of the demo."""

from pathlib import Path

import pytest

from fairlane.settings import Settings, load_settings
from lab.isolation import environment, isolated

FILE = """
[pulsar]
url = "pulsar://elsewhere:6650"
token = "secret"
[worker]
buffer_targets = 4321
"""


def test_children_go_by_the_file_that_was_named_and_by_names_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mine.toml").write_text(FILE)
    monkeypatch.chdir(tmp_path)
    given = isolated(load_settings({"config": "mine.toml"}), "apart", namespaces=2)
    for name, value in environment(given).items():
        monkeypatch.setenv(name, value)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    child = Settings()
    assert (child.pulsar, child.redis, child.worker) == (given.pulsar, given.redis, given.worker)
    assert (child.worker.buffer_targets, child.redis.prefix) == (4321, "apart")


def test_without_a_file_children_are_given_none() -> None:
    assert "FAIRLANE_CONFIG" not in environment(isolated(load_settings({}), "apart"))
