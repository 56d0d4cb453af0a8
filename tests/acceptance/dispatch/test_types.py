"""The programs in the documents as type checkers see them, in a user's environment and directory."""

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
BLOCK = re.compile(r"```python\n(.*?)```", re.DOTALL)
PACKAGES = ("dispatcher", "backends", "quotas", "producers", "consumers", "estate", "spark_jobs", "fairlane")
WRONG = """
from fairlane import Nonsense, PushClient, PushTask, Settings

async def main() -> None:
    PushTask(app="shop", tier=1, message="Hi")
    async with PushClient.connect_async(Settings()) as client:
        await client.set_capacity("fast")
        await client.no_such_method()
"""
"""Four mistakes, by name; a package that checkers cannot follow would hide them."""


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sources, where a build may leave its files."""
    folder = tmp_path_factory.mktemp("checkout") / "fairlane"
    for name in PACKAGES:
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md"):
        shutil.copy(ROOT / name, folder)
    return folder


@pytest.fixture(scope="module", params=["make setup", "pip install PATH"])
def python(request: pytest.FixtureRequest, checkout: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Python of an environment with Fairlane installed in this way; what it depends on is that of this run."""
    folder = tmp_path_factory.mktemp("environment")
    run(sys.executable, "-m", "venv", "--without-pip", folder)
    found = folder / "bin" / "python"
    site = run(found, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip()
    (Path(site) / "dependencies.pth").write_text(sysconfig.get_path("purelib"))
    target = ["--editable", checkout] if request.param == "make setup" else [checkout]
    pip = ("-m", "pip", "--python", found, "install", "-q", "--disable-pip-version-check")
    run(sys.executable, *pip, "--no-deps", "--no-index", "--no-build-isolation", "--ignore-installed", *target)
    return found


def run(*command: object, cwd: Path | None = None, code: int = 0) -> str:
    """The output of a command that ends with this code."""
    env = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "MYPYPATH")}
    done = subprocess.run(
        [str(part) for part in command], cwd=cwd, env=env, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout


def write_programs(folder: Path) -> None:
    pages = (ROOT / name for name in ("README.md", "docs/reference/python.md", "docs/reference/channels.md"))
    blocks = [block for page in pages for block in BLOCK.findall(page.read_text(encoding="utf-8"))]
    assert len(blocks) == 5
    for number, block in enumerate(blocks, 1):
        (folder / f"program_{number}.py").write_text(block)


def mypy(python: Path, folder: Path, code: int = 0) -> str:
    return run(
        *(sys.executable, "-m", "mypy", "--strict", "--config-file=", "--cache-dir", python.parents[1] / "mypy"),
        *("--python-executable", python, "."),
        cwd=folder,
        code=code,
    )


def pyright(python: Path, folder: Path, code: int = 0) -> str:
    settings = {"typeCheckingMode": "strict", "include": ["*.py"]}
    (folder / "pyrightconfig.json").write_text(json.dumps(settings))
    return run(sys.executable, "-m", "basedpyright", "--pythonpath", python, cwd=folder, code=code)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("check", [mypy, pyright])
def test_the_programs_in_the_readme_have_no_type_errors(check: object, python: Path, tmp_path: Path) -> None:
    assert callable(check)
    write_programs(tmp_path)
    check(python, tmp_path)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("check", [mypy, pyright])
def test_mistakes_are_found(check: object, python: Path, tmp_path: Path) -> None:
    assert callable(check)
    (tmp_path / "wrong.py").write_text(WRONG)
    output = check(python, tmp_path, 1)
    assert not [part for part in ("Nonsense", '"tier"', '"int"', "no_such_method") if part not in output], output


def test_an_installed_fairlane_runs(python: Path, tmp_path: Path) -> None:
    """From another directory, as a command and as a library."""
    assert "fairlane 0." in run(python.parent / "fairlane", "--version", cwd=tmp_path)
    assert "fairlane 0." in run(python, "-m", "fairlane", "--version", cwd=tmp_path)
    run(python, "-c", "from fairlane import *; from fairlane.errors import *; from fairlane.channels import *")
