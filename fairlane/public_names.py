"""Import public names when they are first used. Until then only the standard library is loaded."""

import sys
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

PACKAGES = ("dispatcher", "backends", "quotas", "producers", "consumers", "spark_jobs", "estate", "web", "lab")
"""Fairlane's packages apart from `fairlane`."""
ROOT = Path(__file__).resolve().parents[1]
"""The directory that contains them."""


class Shadowed(ImportError):
    """Another module has the name of one of Fairlane's packages and precedes it on the path."""


def public_module(
    module: str, names: Iterable[str], homes: Mapping[str, str]
) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """Return the `__getattr__` and `__dir__` of a module whose public names are imported when they are first used.

    homes: by name, the module that defines it.
    """
    return partial(_public_name, module, homes), lambda: sorted(names)


def _public_name(module: str, homes: Mapping[str, str], name: str) -> object:
    """Return a public name of a module, and store it there. Raises AttributeError, or Shadowed."""
    if name not in homes:
        raise AttributeError(f"module {module!r} has no attribute {name!r}")
    try:
        value: object = getattr(import_module(homes[name]), name)
    except ImportError as error:
        hidden = hidden_package()
        if hidden is None:
            raise
        raise hidden from error
    setattr(sys.modules[module], name, value)
    return value


def hidden_package() -> Shadowed | None:
    """Return the error to raise if another module hides one of Fairlane's packages, else None."""
    for package in PACKAGES:
        file = _file_of(package)
        if file is not None and file.parent != ROOT / package:
            shown = file.parent if file.name == "__init__.py" else file
            return Shadowed(
                f"{shown} hides the package `{package}` of Fairlane, which is in {ROOT}. "
                "Rename it, or put its directory behind Fairlane's on the path.",
                name=package,
                path=str(file),
            )
    return None


def _file_of(package: str) -> Path | None:
    try:
        spec = find_spec(package)
    except (ImportError, ValueError):
        return None
    return None if spec is None or spec.origin is None else Path(spec.origin).resolve()
