"""Packages that come with an extra of Fairlane, and what is said where they are missing."""

from importlib.util import find_spec

from dispatcher.model.errors import FairlaneError


class Missing(FairlaneError):
    """Something that has to be installed first is not there, or cannot be used."""


def require_packages(extra: str, *names: str) -> None:
    """Raise Missing if one of these packages of an extra cannot be imported."""
    missing = [name for name in names if find_spec(name) is None]
    if missing:
        raise Missing(
            f"This needs {' and '.join(missing)} installed.",
            f"Do: `pip install 'PATH[{extra}]'`, where PATH is Fairlane's checkout.",
        )
