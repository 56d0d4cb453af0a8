"""Certificates made once, and the two event loops."""

import asyncio
import inspect
from pathlib import Path
from typing import Any

import pytest
import uvloop

from lab.fake.certificates import make_tls_files

LOOPS = {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run every async test of this folder on both event loops."""
    if inspect.iscoroutinefunction(metafunc.function):
        metafunc.parametrize("loop_factory", LOOPS.values(), ids=LOOPS, indirect=True)


@pytest.fixture(autouse=True)
def loop_factory(request: pytest.FixtureRequest) -> Any:
    return getattr(request, "param", None)


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("certificates")
    make_tls_files(folder, "127.0.0.1")
    return folder
