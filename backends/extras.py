"""Packages that come with an extra of Fairlane, and the error for missing ones."""

from importlib.util import find_spec

from dispatcher.model.errors import FairlaneError


class Missing(FairlaneError):
    """A requirement that must be installed first is missing or unusable."""


def require_packages(extra: str, *names: str) -> None:
    """Raise Missing if one of these packages of an extra cannot be imported."""
    missing = [name for name in names if find_spec(name) is None]
    if missing:
        raise Missing(
            f"This needs {' and '.join(missing)} installed.",
            f"Run `pip install 'PATH[{extra}]'`, where PATH is Fairlane's checkout.",
        )
