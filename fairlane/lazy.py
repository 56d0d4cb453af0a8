"""Import public names when they are first used. Knows nothing but the standard library until then."""

import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

PACKAGES = ("dispatcher", "backends", "quotas", "producers", "consumers", "spark_jobs")
"""Fairlane's packages beside `fairlane`."""
_ROOT = Path(__file__).parents[1]


class Shadowed(ImportError):
    """Another module has the name of one of Fairlane's packages and comes before it on the path."""


def public_name(module: str, name: str) -> object:
    """Return a public name of a module, and keep it there. Raises AttributeError, or Shadowed."""
    try:
        from dispatcher.public_names import PUBLIC

        if name not in PUBLIC[module]:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        value: object = getattr(import_module(PUBLIC[module][name]), name)
    except ImportError as error:
        check_packages(error)
        raise
    setattr(sys.modules[module], name, value)
    return value


def check_packages(cause: ImportError | None = None) -> None:
    """Raise Shadowed if one of Fairlane's packages is hidden. cause: what was noticed of it."""
    for package in PACKAGES:
        found = _file_of(package)
        if found is not None and found.parent != _ROOT / package:
            shown = found.parent if found.name == "__init__.py" else found
            raise Shadowed(
                f"{shown} hides the package `{package}` of Fairlane, which is in {_ROOT}. "
                f"Rename it, or put its directory behind Fairlane's on the path.",
                name=package,
                path=str(found),
            ) from cause


def _file_of(package: str) -> Path | None:
    try:
        spec = find_spec(package)
    except (ImportError, ValueError):
        return None
    return None if spec is None or spec.origin is None else Path(spec.origin)
