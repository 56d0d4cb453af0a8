"""A separate tenant and Redis prefix on the configured servers, for work that must not touch the user's tasks."""

import os
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress

from backends.pulsar.provision import deprovision, provision
from backends.redis.view import open_view
from dispatcher.model.errors import NotFound
from fairlane.settings import Settings


def isolated(settings: Settings, name: str, namespaces: int = 4) -> Settings:
    """Return settings for the same servers with another tenant and another Redis prefix."""
    pulsar = settings.pulsar.model_copy(update={"tenant": name, "namespaces": namespaces})
    redis = settings.redis.model_copy(update={"prefix": name})
    return settings.model_copy(update={"pulsar": pulsar, "redis": redis})


def environment(settings: Settings) -> dict[str, str]:
    """Return the environment that makes child processes use these settings' file, servers, tenant and prefix."""
    return {**os.environ, **variables(settings)}


def variables(settings: Settings) -> dict[str, str]:
    """Return the variables of `environment` that are Fairlane's."""
    pulsar, redis = settings.pulsar, settings.redis
    file = {} if settings.config is None else {"FAIRLANE_CONFIG": str(settings.config.absolute())}
    addresses = {
        "FAIRLANE_PULSAR_URL": pulsar.url,
        "FAIRLANE_PULSAR_ADMIN_URL": pulsar.admin_url,
        "FAIRLANE_REDIS_URL": redis.url,
    }
    return {
        **file,
        **{name: url for name, url in addresses.items() if url is not None},
        "FAIRLANE_HOME": str(settings.home_folder),
        "FAIRLANE_PULSAR_TENANT": pulsar.tenant,
        "FAIRLANE_PULSAR_NAMESPACES": str(pulsar.namespaces),
        "FAIRLANE_PULSAR_SHARED_LANES": str(pulsar.shared_lanes),
        "FAIRLANE_PULSAR_OUTCOME_PARTITIONS": str(pulsar.outcome_partitions),
        "FAIRLANE_REDIS_PREFIX": redis.prefix,
    }


@contextmanager
def provisioned(settings: Settings) -> Iterator[None]:
    """Provision the tenant of these settings; afterwards delete it and everything under the Redis prefix."""
    clear(settings)
    provision(settings.pulsar)
    try:
        yield
    finally:
        clear(settings)


def clear(settings: Settings) -> None:
    """Delete the tenant with all its topics, and all keys of the prefix."""
    with suppress(NotFound):
        deprovision(settings.pulsar)
    with closing(open_view(settings.redis)) as view:
        view.wipe()
