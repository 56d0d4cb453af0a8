"""The URLs that a look at an estate asks: of the cluster, of each broker and of each bookie."""

from collections.abc import Iterable, Iterator, Mapping
from enum import Flag, auto
from urllib.parse import quote, urlsplit

from backends.pulsar.estate.asking import Question
from dispatcher.model.errors import InvalidInput

CLUSTER = "cluster"
"""The node of questions that any broker answers."""
METRICS = "metrics"


class Depth(Flag):
    """Questions beyond those for figures."""

    FIGURES = 0
    SETTINGS = auto()
    """Settings in force of brokers and bookies."""
    TOPICS = auto()
    """Statistics of every topic: for the load of bundles without a load report, and for subscriptions."""
    STORAGE = auto()
    """The bookies of a sample of ledgers."""


def of_cluster_first(base: str, headers: Mapping[str, str]) -> list[Question]:
    """Return the questions whose answers name the nodes."""
    paths = {
        "brokers": "brokers",
        "leader": "brokers/leaderBroker",
        "bookies": "bookies/all",
        "racks": "bookies/racks-info",
        "clusters": "clusters",
    }
    return [Question((CLUSTER, name), f"{base}/admin/v2/{path}", headers) for name, path in paths.items()]


def of_cluster(base: str, headers: Mapping[str, str], namespaces: Iterable[str]) -> Iterator[Question]:
    for namespace in namespaces:
        url = f"{base}/admin/v2/namespaces/{quote(namespace)}"
        yield Question((CLUSTER, f"policies/{namespace}"), url, headers)


def of_ledgers(base: str, headers: Mapping[str, str], topics: Iterable[str]) -> Iterator[Question]:
    for topic in topics:
        url = f"{base}/admin/v2/persistent/{quote(topic.removeprefix('persistent://'))}"
        yield Question((CLUSTER, f"ledgers/{topic}"), f"{url}/internalStats?metadata=true", headers)
        yield Question((CLUSTER, f"offload/{topic}"), f"{url}/offload", headers)


def of_broker(name: str, base: str, headers: Mapping[str, str], depth: Depth) -> Iterator[Question]:
    yield Question((name, METRICS), f"{base}/metrics/", headers)
    yield Question((name, "report"), f"{base}/admin/v2/broker-stats/load-report", headers)
    if Depth.SETTINGS in depth:
        yield Question((name, "settings"), f"{base}/admin/v2/brokers/configuration/runtime", headers)
    if Depth.TOPICS in depth:
        yield Question((name, "topics"), f"{base}/admin/v2/broker-stats/topics", headers)


def of_bookie(name: str, template: str, depth: Depth) -> Iterator[Question]:
    """A bookie's interface has no authentication, so no credentials are sent there."""
    base = bookie_url(template, name)
    yield Question((name, METRICS), f"{base}/metrics")
    api = {
        "cluster_info": "bookie/cluster_info",
        "writable": "bookie/list_bookies?type=rw",
        "read_only": "bookie/list_bookies?type=ro",
    }
    if Depth.SETTINGS in depth:
        api |= {"settings": "config/server_config", "under_replicated": "autorecovery/list_under_replicated_ledger"}
    for document, path in api.items():
        yield Question((name, document), f"{base}/api/v1/{path}")


def bookie_url(template: str, bookie: str) -> str:
    """Return the address of a bookie's HTTP interface. Raises InvalidInput if the template is none."""
    host, _, port = bookie.rpartition(":")
    try:
        url = template.format(host=host, port=port).rstrip("/")
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except (KeyError, IndexError, ValueError):
        usable = False
    if not usable:
        raise InvalidInput(
            f"estate.bookie_http is {template!r}, which is no address of a bookie.",
            "Set it to an address with {host} for the bookie's host, as in http://{host}:8000.",
        )
    return url
