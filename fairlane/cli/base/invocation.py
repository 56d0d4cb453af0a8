"""The options given before the subcommand, and the settings that follow from them."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import update_wrapper
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

import click

if TYPE_CHECKING:
    from fairlane.settings import Settings

P = ParamSpec("P")
R = TypeVar("R")


@dataclass(frozen=True)
class Invocation:
    """One invocation of the command line."""

    options: dict[str, Any] = field(default_factory=dict)
    """Settings given as options, nested by group."""

    def settings(self) -> "Settings":
        """Return the settings from all sources; logging is configured accordingly. Raises InvalidInput."""
        from fairlane.logging import configure_logging
        from fairlane.settings import load_settings

        settings = load_settings(self.options)
        configure_logging(settings.log)
        return settings


pass_invocation = click.make_pass_decorator(Invocation, ensure=True)


def pass_settings(command: Callable[Concatenate["Settings", P], R]) -> Callable[P, R]:
    """Call the command with the settings as its first argument."""

    def with_settings(*args: P.args, **kwargs: P.kwargs) -> R:
        invocation = click.get_current_context().ensure_object(Invocation)
        return command(invocation.settings(), *args, **kwargs)

    return update_wrapper(with_settings, command)


def options_of(
    config: str | None,
    log_level: str | None,
    *,
    log_json: bool | None,
    pulsar_url: str | None,
    pulsar_admin_url: str | None,
    redis_url: str | None,
) -> dict[str, Any]:
    """Return the options as settings, nested by group, without those that were not given."""
    named: dict[str, dict[str, Any]] = {
        "pulsar": {"url": pulsar_url, "admin_url": pulsar_admin_url},
        "redis": {"url": redis_url},
        "log": {"level": log_level, "json": log_json},
    }
    groups = {
        group: {name: value for name, value in given.items() if value is not None} for group, given in named.items()
    }
    top = {} if config is None else {"config": config}
    return {**top, **{group: given for group, given in groups.items() if given}}
