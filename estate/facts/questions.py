"""The URLs that a look at an estate asks: of the cluster, of each broker and of each bookie."""

from collections.abc import Iterable, Iterator, Mapping
from enum import Flag, auto
from urllib.parse import quote, urlsplit

from dispatcher.model.errors import InvalidInput
from estate.facts.asking import Question

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


def documents(node: str, base: str, paths: Mapping[str, str], *, is_public: bool = False) -> Iterator[Question]:
    """Yield the questions for documents of a node. paths: below `base`, by the name of the document."""
    for document, path in paths.items():
        yield Question((node, document), f"{base}/{path}", is_public)


def of_cluster_first(base: str, node: str = CLUSTER) -> list[Question]:
    """Return the questions whose answers name the nodes."""
    paths = {
        "brokers": "brokers",
        "leader": "brokers/leaderBroker",
        "bookies": "bookies/all",
        "racks": "bookies/racks-info",
        "clusters": "clusters",
    }
    return list(documents(node, f"{base}/admin/v2", paths))


def of_cluster(base: str, namespaces: Iterable[str]) -> Iterator[Question]:
    paths = {f"policies/{namespace}": quote(namespace) for namespace in namespaces}
    return documents(CLUSTER, f"{base}/admin/v2/namespaces", paths)


def of_ledgers(base: str, topics: Iterable[str]) -> Iterator[Question]:
    for topic in topics:
        url = f"{base}/admin/v2/persistent/{quote(topic.removeprefix('persistent://'))}"
        paths = {f"ledgers/{topic}": "internalStats?metadata=true", f"offload/{topic}": "offload"}
        yield from documents(CLUSTER, url, paths)


def of_topics(base: str, topics: Iterable[str]) -> Iterator[Question]:
    for topic in topics:
        url = f"{base}/admin/v2/persistent/{quote(topic.removeprefix('persistent://'))}"
        yield from documents(topic, url, {"stats": "stats", "internal-stats": "internalStats?metadata=true"})


def of_broker(name: str, base: str, depth: Depth) -> Iterator[Question]:
    paths = {METRICS: "metrics/", "report": "admin/v2/broker-stats/load-report"}
    if Depth.SETTINGS in depth:
        paths["settings"] = "admin/v2/brokers/configuration/runtime"
    if Depth.TOPICS in depth:
        paths["topics"] = "admin/v2/broker-stats/topics"
    return documents(name, base, paths)


def of_bookie(name: str, base: str, depth: Depth) -> Iterator[Question]:
    paths = {
        METRICS: "metrics",
        "cluster_info": "api/v1/bookie/cluster_info",
        "writable": "api/v1/bookie/list_bookies?type=rw",
        "read_only": "api/v1/bookie/list_bookies?type=ro",
    }
    if Depth.SETTINGS in depth:
        paths["settings"] = "api/v1/config/server_config"
        paths["under_replicated"] = "api/v1/autorecovery/list_under_replicated_ledger"
    return documents(name, base, paths, is_public=True)


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
