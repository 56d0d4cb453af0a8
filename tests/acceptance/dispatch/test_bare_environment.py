"""Commands in bare environments: no home, no user name, no place for files, no working directory."""

import subprocess
import sys
from pathlib import Path

import pytest

from fairlane import Settings
from tests.integration.worker_crew import environment

SERVE_S = 60.0
NAMELESS = "unshare --user --map-user=54321"
READ_ONLY = "unshare --user --map-root-user --mount"
BARE = {
    "no home": f'exec {NAMELESS} env -u HOME "$@"',
    "read-only root, no /tmp": f'''exec {READ_ONLY} sh -c 'mount -o remount,ro,bind / && exec "$@"' sh "$@"''',
    "deleted working directory": 'mkdir "$0/gone" && cd "$0/gone" && rmdir "$0/gone" && exec "$@"',
}


def fairlane(bare: str, folder: Path, settings: Settings, *arguments: str) -> "subprocess.Popen[str]":
    """Start a command with the addresses of the servers, and no HOME, FAIRLANE_HOME or cache."""
    variables = environment(settings)
    given = {name: variables[name] for name in variables if name.startswith(("FAIRLANE_PULSAR_", "FAIRLANE_REDIS_"))}
    return subprocess.Popen(
        ["sh", "-c", BARE[bare], str(folder), sys.executable, "-m", "fairlane", *arguments],
        env={"PATH": variables["PATH"], **given},
        cwd="/",
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


@pytest.mark.parametrize("bare", BARE)
def test_commands_need_no_folder_that_they_do_not_use(bare: str, tmp_path: Path, module_settings: Settings) -> None:
    with fairlane(bare, tmp_path, module_settings, "task", "list") as command:
        output = command.communicate(timeout=SERVE_S)[0]
    assert (command.returncode, "knows no task" in output) == (0, True), output


@pytest.mark.parametrize("bare", BARE)
def test_workers_need_no_folder(bare: str, tmp_path: Path, module_settings: Settings) -> None:
    with fairlane(bare, tmp_path, module_settings, "worker", "--metrics-port", "-1") as worker:
        try:
            assert worker.stdout is not None
            assert any(" serves " in line for line in worker.stdout)
        finally:
            worker.terminate()


def test_a_missing_home_is_named_by_the_commands_that_use_it(tmp_path: Path, module_settings: Settings) -> None:
    with fairlane("no home", tmp_path, module_settings, "stack", "status") as command:
        output = command.communicate(timeout=SERVE_S)[0]
    assert command.returncode == 2
    assert "Set FAIRLANE_HOME to an absolute path." in output
