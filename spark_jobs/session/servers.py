"""Find Pulsar and Redis for a Spark job. The driver reads the settings and sends them to the executors."""

import os
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, SecretStr, ValidationError

from backends.addresses import Address, usable
from backends.settings import ConnectionSettings, ProducerOptions, PulsarSettings, RedisSettings
from dispatcher.model.errors import NotConfigured
from dispatcher.model.field_errors import invalid_input
from dispatcher.model.flow_pause import FlowPause

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CONF_PREFIX = "spark.fairlane."
ENV_PREFIX = "FAIRLANE_"

MEMORY_MIB = 64
"""The default limit for unconfirmed messages of one attempt, whose Python worker also holds a batch of the table."""

_GROUPS: dict[str, type[BaseModel]] = {"pulsar": PulsarSettings, "redis": RedisSettings, "producer": ProducerOptions}
NAMES = tuple(f"{group}.{field}" for group, model in _GROUPS.items() for field in model.model_fields)
"""The options of the data sources: settings of the program with the same names (`fairlane config`)."""

Values = dict[str, str]
"""The text of a setting, by its name in NAMES."""


@dataclass(frozen=True, slots=True)
class Servers:
    """The settings of a connection. Secrets are not shown."""

    pulsar: PulsarSettings
    redis: RedisSettings
    producer: ProducerOptions


def check_configured(*groups: PulsarSettings | RedisSettings) -> None:
    """Raise NotConfigured, on the driver, for addresses that a session was not given.

    A session of the user's own looks for no local stack, unlike commands.
    """
    names = [setting for group in groups for _, setting in group.missing()]
    if names:
        raise NotConfigured(
            f"The Spark session was not given {', '.join(names)}, and it looks for no local stack by itself.",
            "Call `spark_jobs.register(spark, fairlane.Settings())`, which finds what commands find, or set "
            f"{CONF_PREFIX}{names[0]} and so on in its configuration, or {_variable(names[0])} and so on.",
        )


def session_values(spark: "SparkSession", given: Mapping[str, str] | ConnectionSettings | None) -> Values:
    """Return the settings of the servers for a session. given: as in `register`."""
    if given is None:
        return given_values(dict(spark.sparkContext.getConf().getAll()))
    return dict(given) if isinstance(given, Mapping) else values_of(given)


def given_values(conf: Mapping[str, str], env: Mapping[str, str] = os.environ) -> Values:
    """Return a session's settings of the servers.

    spark.fairlane.pulsar.url in its configuration wins over FAIRLANE_PULSAR_URL in the driver's environment.
    """
    given = {name: conf.get(CONF_PREFIX + name) or env.get(_variable(name), "") for name in NAMES}
    return {name: text for name, text in given.items() if text}


def values_of(settings: ConnectionSettings) -> Values:
    """Return the values of settings that are already loaded, only where they differ from the defaults.

    Secrets are in clear text. Raises Unreachable if a server of the local stack has ended, which the values cannot
    show.
    """
    pulsar, redis = settings.pulsar, settings.redis
    for server, url in (("Pulsar", pulsar.url), ("Pulsar", pulsar.admin_url), ("Redis", redis.url)):
        if url is not None:
            usable(server, url, ())
    return values_without_servers(settings)


def values_without_servers(settings: ConnectionSettings) -> Values:
    """Return the same values for a job that needs no servers, without addresses of those that have ended."""
    return {
        f"{group}.{field}": _text(value)
        for group, model in (("pulsar", settings.pulsar), ("redis", settings.redis), ("producer", settings.producer))
        for field, value in model
        if value is not None
        and value != type(model).model_fields[field].get_default(call_default_factory=True)
        and not (isinstance(value, Address) and value.stopped)
    }


def servers_of(values: Mapping[str, str]) -> Servers:
    """Parse the values. Raises InvalidInput for a value outside its limits."""
    values = {"producer.memory_mib": str(MEMORY_MIB), **values}
    groups: dict[str, Any] = {group: _read(model, values, group) for group, model in _GROUPS.items()}
    return Servers(**groups)


def flow_entries(spark: "SparkSession", servers: Servers | None = None) -> Mapping[str, FlowPause]:
    """Return the last entry of each flow. servers: None: those of the session.

    Raises Unreachable if Redis does not answer, and NotConfigured without its address.
    """
    from producers.connection import Connection

    if servers is None:
        servers = servers_of(session_values(spark, None))
        check_configured(servers.redis)
    with closing(Connection(servers)) as connection:
        return connection.flow_entries()


def _read(model: type[BaseModel], values: Mapping[str, str], group: str) -> BaseModel:
    given = {field: text for field in model.model_fields if (text := values.get(f"{group}.{field}"))}
    try:
        return model.model_validate(given)
    except ValidationError as error:
        raise invalid_input(error, f"option {group}") from None


def _variable(name: str) -> str:
    return ENV_PREFIX + name.replace(".", "_").upper()


def _text(value: object) -> str:
    return value.get_secret_value() if isinstance(value, SecretStr) else str(value)
