"""The part of Pulsar's REST interface that Fairlane needs."""

import json
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, TypedDict, TypeVar
from urllib.parse import quote, urlsplit, urlunsplit

import msgspec
import urllib3
from urllib3.util import Retry, Timeout

from backends.addresses import Address
from backends.bounded import PULSAR_BYTES, Bounds, open_http
from backends.settings import PulsarSettings
from dispatcher.model.errors import DECODING_ERRORS, FairlaneError, NotFound, Refused, Unreachable
from dispatcher.model.shown import beginning
from dispatcher.wire.topics import SUBSCRIPTION, lane_of_topic

_EARLIEST = {"ledgerId": -1, "entryId": -1, "partitionIndex": -1}
_CREATED_ELSEWHERE_S = (0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
"""Waits between attempts to create a subscription. When two clients create it at once, the broker answers one of them
412 until the other has finished."""
_RETRIED = (500, 502, 503, 504)
"""Status codes that are retried. Brokers answer 500 when two calls race for the same metadata. Every call below may be
made twice."""
WAIT = "Check that Pulsar runs there and the address is right (`fairlane doctor`), then try again."
RIGHTS = "Check FAIRLANE_PULSAR_TOKEN or the client certificate, and its role's rights on the tenant."
PROVISION = "Run `fairlane provision`."

T = TypeVar("T")
Document = dict[str, Any]


class _LastEntry(TypedDict):
    ledgerId: int
    entryId: int


class _Subscription(TypedDict):
    msgBacklog: int


class _Statistics(TypedDict):
    subscriptions: dict[str, _Subscription]


class PulsarAdmin:
    """A pooled, thread-safe client of Pulsar's REST interface.

    Every method may raise Unreachable (no answer, or a failing broker) and Refused (no right, or the state does not
    allow it), and NotFound if the object asked about does not exist.
    """

    def __init__(self, settings: PulsarSettings) -> None:
        """Raises NotConfigured; Unreachable if the local stack's Pulsar has ended."""
        self.address = settings.admin_address
        self._base = self.address.rstrip("/")
        self._http = make_pool(settings)

    # ------------------------------------------------------------ broker
    def health(self) -> None:
        """Return if the broker can store and read back a message. Raises Unreachable."""
        self._call("GET", "brokers/health")

    def version(self) -> str:
        """Return the broker's version, as in "4.0.8"."""
        return self._call("GET", "brokers/version").decode().strip().strip('"')

    def runtime_configuration(self) -> dict[str, str]:
        """Return the broker's settings currently in force. Needs an administrator's rights."""
        return self._json("brokers/configuration/runtime", Document)

    def brokers(self) -> list[str]:
        """Return the REST addresses (host:port) of all brokers of the cluster."""
        return self._json("brokers", list[str])

    def topic_statistics(self) -> bytes:
        """Return this broker's last statistics of all topics it serves, as JSON. It measures them every
        statsUpdateFrequencyInSecs (default 60 s). Needs an administrator's rights."""
        return self._call("GET", "broker-stats/topics")

    def clusters(self) -> list[str]:
        return [name for name in self._json("clusters", list[str]) if name != "global"]

    # ------------------------------------------------------------ tenants and namespaces
    def tenant_exists(self, tenant: str) -> bool:
        """Return whether the tenant exists. Asks for its namespaces, since a role may own a tenant without the right to
        list all tenants."""
        try:
            self._json(f"namespaces/{tenant}", list[str])
        except NotFound:
            return False
        return True

    def create_tenant(self, tenant: str, clusters: list[str]) -> bool:
        """Create a tenant. Return False if it already exists."""
        return self._create(f"tenants/{tenant}", {"allowedClusters": clusters, "adminRoles": []})

    def namespaces(self, tenant: str) -> list[str]:
        """Return the full names, as in "fairlane/system"; none if the tenant does not exist."""
        return self._names(f"namespaces/{tenant}")

    def create_namespace(self, namespace: str, policies: Mapping[str, Any]) -> bool:
        """Create a namespace with these policies (by Pulsar's names). Return False if it already exists, with any
        policies."""
        return self._create(f"namespaces/{namespace}", policies)

    def policies(self, namespace: str) -> dict[str, Any]:
        """Raises NotFound."""
        return self._json(f"namespaces/{namespace}", Document)

    def set_policy(self, namespace: str, path: str, value: Any) -> None:
        """Set a policy. path: of the policy in the REST interface, below the namespace."""
        self._call("POST", f"namespaces/{namespace}/{path}", value)

    def set_properties(self, namespace: str, properties: Mapping[str, str]) -> None:
        """Set these properties of a namespace; others stay."""
        self._call("PUT", f"namespaces/{namespace}/properties", dict(properties))

    # ------------------------------------------------------------ topics
    def create_lane(self, topic: str, partitions: int = 0) -> None:
        """Create the topic (0 partitions: a plain one) and its subscription at the first message. Does nothing if both
        exist."""
        self.create_topic(topic, partitions)
        self.create_subscription(topic, SUBSCRIPTION)

    def create_topic(self, topic: str, partitions: int = 0) -> bool:
        """Create a topic. Return False if it already exists."""
        return self._create(f"{_path(topic)}/partitions", partitions) if partitions else self._create(_path(topic))

    def create_subscription(self, topic: str, name: str) -> bool:
        """Create a subscription at the topic's beginning. Return False if it already exists. Waits for another client
        that is creating it at the same moment."""
        path = f"{_path(topic)}/subscription/{quote(name)}"
        for wait_s in _CREATED_ELSEWHERE_S:
            try:
                return self._create(path, _EARLIEST)
            except _Precondition:
                time.sleep(wait_s)
        return self._create(path, _EARLIEST)

    def delete_subscription(self, topic: str, name: str) -> None:
        """Delete a subscription, with any backlog; no consumer may be attached."""
        self.delete(f"{_path(topic)}/subscription/{quote(name)}")

    def delete_topic(self, topic: str, *, force: bool = False) -> bool:
        """Delete a topic with its partitions and all messages. Return True also if it does not exist.

        Return False if a producer or consumer is attached and force is not set; partitions without any are deleted by
        then. A deleted topic does not reappear as long as topics are not created automatically.
        """
        try:
            return self._delete(_path(topic), force=force)
        except _Conflict:  # it has partitions
            return self._delete(f"{_path(topic)}/partitions", force=force)

    def topic_exists(self, topic: str) -> bool:
        try:
            self.subscriptions(topic)
        except NotFound:
            return False
        return True

    def subscriptions(self, topic: str) -> list[str]:
        """Raises NotFound."""
        return self._json(f"{_path(topic)}/subscriptions", list[str])

    def list_topics(self, namespace: str) -> list[str]:
        """Return the full names of the namespace's topics; none if the namespace does not exist. A partitioned topic is
        listed once, without its partitions."""
        topics = [*self._names(f"persistent/{namespace}"), *self._names(f"persistent/{namespace}/partitioned")]
        return list(dict.fromkeys(map(lane_of_topic, topics)))

    def topics_and_partitions(self, namespace: str) -> list[str]:
        """Return the full names of the namespace's topics, each partition by itself; none if it does not exist."""
        return self._names(f"persistent/{namespace}")

    def stats(self, topic: str) -> dict[str, Any]:
        """Raises NotFound."""
        return self._json(f"{_path(topic)}/stats", Document)

    def backlog(self, topic: str, subscription: str = SUBSCRIPTION) -> int:
        """Return the number of entries (producer batches, not messages) that are not fully acknowledged. Raises
        NotFound."""
        statistics = self._json(f"{_path(topic)}/stats?getPreciseBacklog=true", _Statistics)
        if subscription not in statistics["subscriptions"]:
            raise NotFound(f"Topic {topic} has no subscription {subscription}.", PROVISION)
        return statistics["subscriptions"][subscription]["msgBacklog"]

    def last_entry(self, topic: str) -> tuple[int, int]:
        """Return (ledger, entry) of the last stored entry; entry is -1 if there is none. Raises NotFound."""
        entry = self._json(f"{_path(topic)}/lastMessageId", _LastEntry)
        return entry["ledgerId"], entry["entryId"]

    def unload(self, topic: str) -> None:
        """Make the broker unload the topic; attached clients reconnect."""
        self._call("PUT", f"{_path(topic)}/unload")

    def unload_bundle(self, bundle: str, target: str = "") -> None:
        """Make the broker unload all topics of a bundle (tenant/namespace/range); any broker may then take it.

        target: the broker to load it, host:port of its REST address. Pulsar does not keep to that in a third of the
        cases. Raises Refused with a target while no broker owns the bundle.
        """
        query = f"?destinationBroker={quote(target)}" if target else ""
        self._call("PUT", f"namespaces/{bundle}/unload", query=query)

    def document(self, path: str) -> Any:
        """Return any other document, by its path below /admin/v2; None if it is empty. Raises NotFound."""
        return self._json(path, Any, if_empty=b"null")

    def post(self, path: str, body: Any) -> None:
        self._call("POST", path, body)

    def delete(self, path: str) -> None:
        """Delete a document. Does nothing if it does not exist."""
        with suppress(NotFound):
            self._call("DELETE", path)

    def split_bundle(self, bundle: str, position: int) -> None:
        """Split a bundle at a hash, the first of the upper part; its topics are loaded again."""
        query = "?unload=true&splitAlgorithmName=specified_positions_divide"
        self._call("PUT", f"namespaces/{bundle}/split", [position], query)

    def owned_bundles(self, cluster: str, broker: str) -> list[str]:
        """Return the bundles that a broker owns now, tenant/namespace/range, also those without topics."""
        return list(self._json(f"brokers/{cluster}/{quote(broker)}/ownedNamespaces", Document))

    def load_report(self) -> dict[str, Any]:
        """Return this broker's report of its load. Brokers with another than the modular load manager have none, and
        raise Unreachable."""
        return self._json("broker-stats/load-report", Document)

    def owner_of_topic(self, topic: str) -> str:
        """Return host:port of the REST address of the broker that serves a topic; one is chosen if none does. Raises
        NotFound."""
        answer = self._json(f"topic/{_path(topic)}", dict[str, str | None], root="lookup/v2")
        return urlsplit(answer.get("httpUrl") or answer.get("httpUrlTls") or "").netloc

    def close(self) -> None:
        self._http.clear()

    # ------------------------------------------------------------ calls
    def _create(self, path: str, body: Any = None) -> bool:
        try:
            self._call("PUT", path, body)
        except _Conflict:
            return False
        return True

    def _delete(self, path: str, *, force: bool) -> bool:
        try:
            self._call("DELETE", path, query="?force=true" if force else "")
        except NotFound:
            return True
        except _Precondition:
            return False
        return True

    def _json(self, path: str, kind: type[T], *, if_empty: bytes = b"", root: str = "admin/v2") -> T:
        """Return a document of a type. Raises Unreachable for anything else: a proxy before Pulsar answered."""
        body = self._call("GET", path, root=root)
        try:
            return msgspec.convert(json.loads(body.strip() or if_empty), kind)
        except DECODING_ERRORS as error:
            cause = f"Pulsar at {self.address.named()}: GET {path} was answered with something that Pulsar does not say"
            raise Unreachable(f"{cause}: {error}.", WAIT) from error

    def _names(self, path: str) -> list[str]:
        """Return a document's list; none if it does not exist."""
        try:
            return self._json(path, list[str])
        except NotFound:
            return []

    def _call(self, method: str, path: str, body: Any = None, query: str = "", root: str = "admin/v2") -> bytes:
        headers = {"Content-Type": "application/json"} if body is not None else {}
        content = None if body is None else json.dumps(body)
        try:
            answer = self._http.request(
                method, f"{self._base}/{root}/{path}{query}", body=content, headers={**self._http.headers, **headers}
            )
        except urllib3.exceptions.HTTPError as error:
            raise _no_answer(self.address, f"{method} {path}", error) from error
        if answer.status >= 300:
            raise _failure(self.address, f"{method} {path}", answer.status, answer.data)
        return answer.data


class _Conflict(Refused):
    """409: it already exists."""


class _Precondition(Refused):
    """412: the state does not allow it; for a deletion, a client is attached."""


def _no_answer(address: Address, what: str, error: urllib3.exceptions.HTTPError) -> FairlaneError:
    reason = getattr(error, "reason", error)
    cause = f"Pulsar at {address.named()}: {what} got no answer: {str(reason).split('): ')[-1]}."
    if isinstance(reason, urllib3.exceptions.SSLError):
        return Refused(cause, "Check FAIRLANE_PULSAR_TLS_CA, the client certificate and its key.")
    return Unreachable(cause, WAIT)


def _failure(address: Address, what: str, status: int, body: bytes) -> FairlaneError:
    cause = f"Pulsar at {address.named()}: {what} was answered {status}: {_reason(body)}."
    if status in (401, 403):
        return Refused(cause, RIGHTS)
    if status == 404:
        return NotFound(cause, PROVISION)
    if status == 409:
        return _Conflict(cause)
    if status == 412:
        return _Precondition(cause)
    if status >= 500 or status == 429:
        return Unreachable(cause, WAIT)
    return Refused(cause, "Check the broker's log.")


def _reason(body: bytes) -> str:
    """Return the reason the broker gives, without error pages and stack traces."""
    text = ""
    with suppress(*DECODING_ERRORS, KeyError, TypeError):
        text = str(json.loads(body)["reason"])
    return beginning(text.strip().splitlines()[0], 200) if text.strip() else "no reason given"


def _path(topic: str) -> str:
    """Return the REST path of persistent://tenant/namespace/name; of a non-persistent one as well."""
    domain, _, rest = topic.rpartition("://")
    namespace, _, name = rest.rpartition("/")
    return f"{domain or 'persistent'}/{namespace}/{quote(name, safe='')}"


def make_pool(settings: PulsarSettings, maxsize: int = 16) -> urllib3.PoolManager:
    """Return connections to Pulsar's REST interface, with the credentials of the settings.

    maxsize: connections to one host that are kept; urllib3 warns of each that is not.
    """
    token = settings.token
    tls: dict[str, Any] = {}
    if settings.admin_address.startswith("https"):
        tls = {
            "ca_certs": None if settings.tls_ca is None else str(settings.tls_ca),
            "cert_file": None if settings.tls_cert is None else str(settings.tls_cert),
            "key_file": None if settings.tls_key is None else str(settings.tls_key),
            "assert_hostname": None if settings.tls_verify_hostname else False,
        }
    return open_http(
        Bounds(PULSAR_BYTES, settings.operation_timeout_s),
        maxsize=maxsize,
        headers={} if token is None else {"Authorization": f"Bearer {token.get_secret_value()}"},
        timeout=Timeout(connect=settings.connect_timeout_s, read=settings.operation_timeout_s),
        retries=Retry(
            total=5,
            connect=1,  # report an unreachable server at once
            status=4,
            read=1,
            backoff_factor=0.1,
            backoff_jitter=0.1,
            allowed_methods=None,
            status_forcelist=_RETRIED,
            raise_on_status=False,
            # A broker that does not own the topic redirects to the one that does, which needs the token as well.
            remove_headers_on_redirect=[],
        ),
        **tls,
    )


def settings_at(settings: PulsarSettings, broker: str, *, alone: bool) -> PulsarSettings:
    """Return the settings for one broker. A single broker is reached at the configured address: the name it has for
    itself may not resolve here."""
    update = {} if alone else {"admin_url": broker_url(settings.admin_address, broker)}
    return settings.model_copy(update=update)


def broker_url(base: str, broker: str) -> str:
    """Return the base URL of a broker. base: that of another one; broker: host:port of its REST address."""
    return urlunsplit((urlsplit(base).scheme, broker, "", "", ""))
