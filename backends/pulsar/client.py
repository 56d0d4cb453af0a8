"""The Pulsar client with Fairlane's settings, its exceptions as Fairlane's errors, and topic positions as text."""

import os
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, TypeVar
from urllib.parse import urlsplit

import pulsar

from backends.addresses import Address
from backends.background_calls import BackgroundCalls
from backends.pulsar.admin import PROVISION, RIGHTS, WAIT
from backends.settings import PulsarSettings
from dispatcher.model.errors import FairlaneError, InvalidInput, NotFound, Refused, Unreachable
from dispatcher.retry import Backoff
from dispatcher.wire.topics import Topics

Answer = TypeVar("Answer")


def topics(settings: PulsarSettings) -> Topics:
    """Return the names of this installation's topics."""
    return Topics(settings.tenant, settings.namespaces, settings.shared_lanes, settings.outcome_partitions)


class PulsarClient(pulsar.Client):  # type: ignore[misc]  # the vendor's has no types
    """A client that remembers its service address, for error messages, and has checks of its producers."""

    address: Address
    checks: BackgroundCalls


def connect(settings: PulsarSettings, log_file: str = os.devnull) -> PulsarClient:
    """Return a client for one process; it is not fork-safe.

    Raises NotConfigured, and Unreachable at once if nothing accepts connections: the client itself would retry for the
    whole operation timeout and then report a timeout.

    The client's own log (mostly reconnects) goes to log_file: its console logger would write to standard output, among
    the data, and everything that matters reaches the caller as an error anyway. The first client of a process sets the
    log file for all.
    """
    check_accepts(settings)
    with translated("connect"):
        client = PulsarClient(
            str(settings.address),
            authentication=_authentication(settings),
            operation_timeout_seconds=max(1, round(settings.operation_timeout_s)),
            connection_timeout_ms=round(settings.connect_timeout_s * 1000),
            io_threads=settings.io_threads,
            stats_interval_in_seconds=0,
            tls_trust_certs_file_path=_path(settings.tls_ca),
            tls_validate_hostname=settings.tls_verify_hostname,
            tls_certificate_file_path=_path(settings.tls_cert),
            tls_private_key_file_path=_path(settings.tls_key),
            logger=pulsar.FileLogger(pulsar.LoggerLevel.Warn, log_file),
        )
    client.address = settings.address
    client.checks = BackgroundCalls()
    return client


def check_accepts(settings: PulsarSettings) -> None:
    """Return once one of the address's hosts accepts a connection. Raise NotConfigured, Unreachable, and InvalidInput
    for a malformed address."""
    address = settings.address
    servers = _places(address)
    reasons = []
    for host, port in servers:
        reason = _refusal(host, port, settings.connect_timeout_s)
        if reason is None:
            return
        reasons.append(f"{reason} by {host}:{port}" if len(servers) > 1 else reason)
    raise Unreachable(f"Pulsar at {address.named()} cannot be connected to: {', '.join(reasons)}.", WAIT)


def _places(address: Address) -> list[tuple[str, int]]:
    """Return host and port of every server in a binary address. Raise InvalidInput."""
    default_port = 6651 if address.startswith("pulsar+ssl:") else 6650
    try:
        parts = [urlsplit(f"//{host}") for host in address.partition("://")[2].rstrip("/").split(",")]
        servers = [(part.hostname or "", part.port or default_port) for part in parts]
        if not all(host and host.encode("idna") for host, _ in servers):
            raise ValueError("a host is missing")
    except ValueError as error:
        cause = f"Pulsar's address {address.named()} is not valid: {error}."
        raise InvalidInput(cause, "Write pulsar://host:port.") from error
    return servers


def _refusal(host: str, port: int, timeout_s: float) -> str | None:
    """Return why a host does not accept a connection; None if it does."""
    try:
        socket.create_connection((host, port), timeout_s).close()
    except TimeoutError:
        return f"no answer within {timeout_s:g} s"
    except OSError as error:
        return error.strerror or str(error)
    return None


def close(client: Any) -> None:
    """Close a client and everything it created, or a reader. Never fails: after an outage it may be closed already."""
    with suppress(pulsar.PulsarException):
        client.close()


def partitions_of(client: pulsar.Client, topic: str) -> list[str]:
    """Return the topics of a topic's partitions, or the topic itself if it has none. Raises Unreachable."""
    return list(ask(f"look up {topic}", client, lambda: client.get_topic_partitions(topic)))


def record_producer(client: pulsar.Client, topic: str, send_timeout_ms: int = 0) -> Any:
    """Return a raw producer of small records. It never blocks, so that a lock may be held while sending.

    send_timeout_ms: 0: no record fails alone.

    Raises Unreachable, NotFound (not provisioned), Refused.
    """
    return make_producer(
        client,
        topic,
        send_timeout_millis=send_timeout_ms,
        max_pending_messages=0,
        batching_enabled=True,
        batching_max_messages=100,
        batching_max_publish_delay_ms=1,
        compression_type=pulsar.CompressionType.LZ4,
    )


def make_producer(client: pulsar.Client, topic: str, **options: Any) -> Any:
    """Return a raw producer: the wrapper's checks cost more than the sending. Raises as `record_producer`."""
    what = f"create a producer for {topic}"
    return ask(what, client, lambda: client.create_producer(topic, **options))._producer


def let_go(producer: Any) -> None:
    """Close a raw producer in the background, without waiting; a broken producer may refuse.

    Its pending messages fail at once. Their callbacks run under the client's lock, so they must not send with this
    client.
    """
    producer.close_async(ignore)


def ignore(_result: Any) -> None:
    """Ignore the result of an operation that cannot fail, or whose failure only means a copy later.

    (A callback that raises would end the process.)
    """


def _authentication(settings: PulsarSettings) -> pulsar.Authentication | None:
    """Return the token if one is set, else the client certificate, else None."""
    if settings.token is not None:
        return pulsar.AuthenticationToken(settings.token.get_secret_value())
    if settings.tls_cert is not None:
        return pulsar.AuthenticationTLS(str(settings.tls_cert), str(settings.tls_key))
    return None


def _path(path: object) -> str | None:
    return None if path is None else str(path)


# ---------------------------------------------------------------- errors
_QUOTA_FULL = "the topic's backlog quota is full"
_DRAIN = "Add workers, or raise the quota."
_SETTINGS = "Correct the setting."
_BUG = "This is a bug in Fairlane; please report it."

ASK_AGAIN_S = 5.0
"""How long a call is made again while its answer is Transient."""
ASK_WAITS = Backoff(0.05, 0.5)


class Transient(Unreachable):
    """An answer that a healthy Pulsar gives for a moment, as while a topic moves between brokers.

    A reader that has just been moved to a time is one example: its consumer attaches again, and until then the broker
    answers BrokerMetadataError.
    """


_MAKE_AGAIN = "When its backlog is sent, run `pulsar-admin topics delete TOPIC --force`, then `fairlane provision`."
_ERRORS: dict[str, tuple[type[FairlaneError], str, str]] = {
    "Timeout": (Unreachable, "it did not answer in time", WAIT),
    "ConnectError": (Transient, "it cannot be connected to", WAIT),
    "NotConnected": (Transient, "the connection is lost", WAIT),
    "ReadError": (Transient, "the connection broke", WAIT),
    "LookupError": (Transient, "no broker serves the topic", WAIT),
    "TooManyLookupRequestException": (Transient, "it is asked for too many topics at once", WAIT),
    "ServiceUnitNotReady": (Transient, "the topic is being moved between brokers", WAIT),
    "BrokerMetadataError": (Transient, "its metadata store fails", WAIT),
    "BrokerPersistenceError": (Transient, "its storage fails", WAIT),
    "UnknownError": (Transient, "it failed without a reason", "Check the broker's log, then try again."),
    "ProducerBusy": (Transient, "the topic still has the previous producer", WAIT),
    "ProducerNotInitialized": (Transient, "the producer is gone", WAIT),
    "ConsumerNotInitialized": (Transient, "the consumer is gone", WAIT),
    "AlreadyClosed": (Unreachable, "the client is closed", "Connect again."),
    "Interrupted": (Unreachable, "the call was interrupted", "Try again."),
    "AuthenticationError": (Refused, "it rejects the client's credentials", RIGHTS),
    "ErrorGettingAuthenticationData": (Refused, "the credentials cannot be read", RIGHTS),
    "AuthorizationError": (Refused, "the role lacks the right", RIGHTS),
    "ProducerBlockedQuotaExceededError": (Refused, _QUOTA_FULL, _DRAIN),
    "ProducerBlockedQuotaExceededException": (Refused, _QUOTA_FULL, _DRAIN),
    "TopicTerminated": (Refused, "the topic is terminated: it accepts no more messages", _MAKE_AGAIN),
    "NotAllowedError": (Refused, "the broker does not allow it", "Check the broker's log."),
    "ConsumerBusy": (Refused, "the subscription is used by consumers of another type", "Stop the foreign consumer."),
    "ProducerFenced": (Refused, "another producer has the topic for itself", "Stop the foreign producer."),
    "TopicNotFound": (NotFound, "there is no such topic", PROVISION),
    "SubscriptionNotFound": (NotFound, "there is no such subscription", PROVISION),
    "InvalidUrl": (InvalidInput, "the address is not valid", _SETTINGS),
    "InvalidTopicName": (InvalidInput, "the topic's name is not valid", _SETTINGS),
    "InvalidConfiguration": (InvalidInput, "the client's configuration is not valid", _SETTINGS),
    "InvalidMessage": (InvalidInput, "it does not accept the message", _BUG),
    "MessageTooBig": (InvalidInput, "the message is too big for this Pulsar", "Raise the broker's maxMessageSize."),
}  # fmt: skip


def error_of(name: str, what: str, client: object = None) -> FairlaneError:
    """Return Fairlane's error for a result or an exception of Pulsar.

    name: of the result or exception (they share their names). what: the attempted action, as in "read topic x". client:
    the one whose address the error names.
    """
    kind, cause, next_step = _ERRORS.get(name, (FairlaneError, f"it answered {name}", _BUG))
    where = f" at {client.address.named()}" if isinstance(client, PulsarClient) else ""
    return kind(f"Pulsar{where}: could not {what}: {cause} ({name}).", next_step)


def failure_of(result: Any, what: str, client: object) -> FairlaneError | None:
    """Return the error for a callback's result, or None if it succeeded."""
    return None if result == pulsar.Result.Ok else error_of(result.name, what, client)


@contextmanager
def translated(what: str, client: object = None) -> Iterator[None]:
    """Raise Pulsar's exceptions as Fairlane's errors. what: the attempted action, as in "create a producer for x"."""
    try:
        yield
    except pulsar.PulsarException as error:
        raise error_of(type(error).__name__, what, client) from error


def ask(what: str, client: object, call: Callable[[], Answer]) -> Answer:
    """Return what a call to Pulsar returns. Make it again while the answer is Transient, for ASK_AGAIN_S.

    what: the attempted action, as in "create a producer for x". Raises Fairlane's errors.
    """
    end_s, wait_s = time.monotonic() + ASK_AGAIN_S, 0.0
    while True:
        try:
            with translated(what, client):
                return call()
        except Transient:
            wait_s = ASK_WAITS.after(wait_s)
            if time.monotonic() + wait_s > end_s:
                raise
            time.sleep(wait_s)


# ---------------------------------------------------------------- positions
def position_of(message_id: Any) -> str:
    """Return a message's position in its topic, as text that sorts in topic order."""
    return f"{message_id.ledger_id():020d}:{message_id.entry_id():020d}:{message_id.batch_index() + 1:06d}"


def position_before(position: str) -> str:
    """Return a position behind which the records begin with that of a position, or with its batch."""
    ledger_id, entry_id, _ = position.split(":")
    return f"{ledger_id}:{int(entry_id) - 1:020d}:000000"


def message_id_from(position: str | None) -> Any:
    """Return Pulsar's message id for a position; None means the beginning of the topic. Raises InvalidInput."""
    if position is None:
        return pulsar.MessageId.earliest
    try:
        ledger_id, entry_id, batch = (int(part) for part in position.split(":"))
    except ValueError as error:
        raise InvalidInput(f"{position!r} is not a position in a topic.", _BUG) from error
    return pulsar.MessageId(-1, ledger_id, entry_id, batch - 1)
