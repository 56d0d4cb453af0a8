"""A user's own modules that have the names of Fairlane's packages."""

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from fairlane.public_names import PACKAGES, ROOT


def run(*arguments: str, cwd: Path, first: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Python without what is installed; Fairlane and its dependencies come from PYTHONPATH, behind `first`."""
    path = os.pathsep.join(map(str, [*([first] if first else []), ROOT, sysconfig.get_path("purelib")]))
    env = {name: value for name, value in os.environ.items() if not name.startswith("FAIRLANE_")}
    env |= {"PYTHONPATH": path, "FAIRLANE_HOME": str(cwd / "home"), "FAIRLANE_CACHE": str(cwd / "cache")}
    return subprocess.run(
        [sys.executable, "-S", *arguments], cwd=cwd, env=env, capture_output=True, text=True, timeout=60, check=False
    )


@pytest.mark.parametrize("package", ["dispatcher", "backends", "producers"])
def test_a_module_beside_a_users_script_that_hides_one_of_ours_is_named(package: str, tmp_path: Path) -> None:
    """`producers.py` is a likely name; the error was "'producers' is not a package"."""
    (tmp_path / f"{package}.py").touch()
    script = tmp_path / "script.py"
    script.write_text("from fairlane import PushClient, Settings\n")
    done = run(str(script), cwd=tmp_path)
    assert f"{tmp_path / package}.py hides the package `{package}` of Fairlane" in done.stderr
    assert "Rename it" in done.stderr


def test_a_package_that_hides_one_of_ours_is_named(tmp_path: Path) -> None:
    (tmp_path / "dispatcher").mkdir()
    (tmp_path / "dispatcher" / "__init__.py").touch()
    for public in ("fairlane", "fairlane.errors", "fairlane.channels"):
        done = run("-c", f"from {public} import *", cwd=tmp_path)
        assert f"{tmp_path / 'dispatcher'} hides the package `dispatcher`" in done.stderr


def test_modules_in_the_working_directory_break_no_command(tmp_path: Path) -> None:
    """Python puts it first on the path for `python -m fairlane`."""
    for package in PACKAGES:
        (tmp_path / f"{package}.py").write_text("raise SystemExit('the wrong one')\n")
    assert run("-m", "fairlane", "task", "--help", cwd=tmp_path).returncode == 0
    worker = run("-m", "fairlane", "worker", cwd=tmp_path)
    assert (worker.returncode, "wrong one" in worker.stderr) == (2, False)
    assert "fairlane stack up" in worker.stderr  # it came as far as asking for servers


def test_a_worker_finds_channels_in_its_working_directory_after_all_else(tmp_path: Path) -> None:
    """`consumers.py` is that of every project that uses Django Channels."""
    (tmp_path / "consumers.py").write_text("raise SystemExit('the wrong one')\n")
    (tmp_path / "my_push.py").touch()
    code = (
        "import sys; sys.path.remove('')\n"  # as in the console script
        "from fairlane import Settings; from fairlane.worker.process import process; process._run_one = lambda *_: 0\n"
        "pulsar = {'url': 'pulsar://127.0.0.1:1', 'admin_url': 'http://127.0.0.1:1'}\n"
        "process.run_workers(Settings(pulsar=pulsar, redis={'url': 'redis://127.0.0.1:1/0'}))\n"
        "import my_push, consumers.delivery.calls; print(sys.path[-1])"
    )
    done = run("-c", code, cwd=tmp_path)
    assert (done.stdout.strip(), done.returncode) == (str(tmp_path), 0), done.stderr


@pytest.mark.parametrize("arguments", [["-m", "fairlane"], ["-c", "from fairlane.cli.main import main; main()"]])
def test_a_module_before_ours_on_the_path_is_named_by_commands(arguments: list[str], tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.mkdir()
    (own / "consumers.py").touch()
    done = run(*arguments, "worker", cwd=tmp_path, first=own)
    assert done.returncode == 1
    assert f"fairlane: {own / 'consumers.py'} hides the package `consumers` of Fairlane" in done.stderr
