"""Packages that come with an extra of Fairlane, and the error for missing ones."""

from importlib.util import find_spec

from dispatcher.model.errors import FairlaneError


class Missing(FairlaneError):
    """A requirement that must be installed first is missing or unusable."""

    exit_code = 2


def require_packages(extra: str, *names: str) -> None:
    """Raise Missing if one of these packages of an extra cannot be imported."""
    missing = [name for name in names if not _is_there(name)]
    if missing:
        raise Missing(
            f"This needs {' and '.join(missing)} installed.",
            f"Run `pip install 'PATH[{extra}]'`, where PATH is Fairlane's checkout.",
        )


def _is_there(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except ModuleNotFoundError:  # not even the package that holds it
        return False
