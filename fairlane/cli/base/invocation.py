"""The options given before the subcommand, as settings. They are the object of click's context."""

from typing import Any


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
