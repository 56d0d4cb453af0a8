"""`from fairlane import ...`: the names are there, and cost nothing until used."""

import subprocess
import sys

import pytest

import fairlane


@pytest.mark.parametrize("name", fairlane.__all__)
def test_every_public_name_is_there(name: str) -> None:
    assert getattr(fairlane, name) is not None


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="nope"):
        fairlane.nope  # type: ignore[attr-defined]  # noqa: B018


def test_importing_loads_no_client() -> None:
    code = "import sys, fairlane; print('pulsar' in sys.modules, 'redis' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]
