"""Records what the nodes of an estate answer, as texts, for a capture: all at once, each within the same limit."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Self
from urllib.parse import quote

from backends.pulsar.admin import make_pool
from backends.pulsar.estate import questions
from backends.pulsar.estate.asking import Allowance, Question, Reply, ask_all
from backends.pulsar.estate.questions import CLUSTER, METRICS
from backends.pulsar.estate.reader import bookie_names, broker_urls, node_of
from backends.settings import PulsarSettings

LIMIT_S = 5.0
"""How long one answer may take. The first list of a broker's MBeans took 3 s on a busy machine."""
MAX_BYTES = 16 << 20
"""Maximum size of one answer; the rest is cut."""
MAX_TOTAL = 64 << 20
"""Maximum size of all answers of one capture."""
_CONNECTIONS = 128

_OF_CLUSTER = {
    "dynamic-settings": "brokers/configuration/values",
    "internal-settings": "brokers/internal-configuration",
}
_OF_BROKER = {
    "version": "brokers/version",
    "settings": "brokers/configuration/runtime",
    "load-report": "broker-stats/load-report",
    "mbeans": "broker-stats/mbeans",
    "memory": "broker-stats/allocator-stats/ml-cache",
}
_OF_BOOKIE = {
    "settings": "config/server_config",
    "state": "bookie/state",
    "disk": "bookie/info",
    "cluster": "bookie/cluster_info",
    "writable": "bookie/list_bookies?type=rw",
    "read-only": "bookie/list_bookies?type=ro",
    "garbage": "bookie/gc_details",
    "journal-mark": "bookie/last_log_mark",
    "files": "bookie/list_disk_file",
    "auditor": "autorecovery/who_is_auditor",
    "under-replicated": "autorecovery/list_under_replicated_ledger",
}
BROKERS, LANES = "brokers", "lanes"
"""Kinds of texts."""
TOPICS = "topics"
"""Document of a broker with the statistics of all its topics."""
STATS, INTERNAL = "stats", "internal-stats"
"""Documents of a topic."""


@dataclass(frozen=True)
class RecordedText:
    """The answer to one question, or why there is none."""

    kind: str
    """cluster, brokers, bookies or lanes."""
    node: str
    """Broker, bookie or topic; empty for the cluster."""
    document: str
    body: bytes = b""
    failure: str = ""
    cut: bool = False


@dataclass(frozen=True)
class FoundNodes:
    """The nodes of the estate, and the answers that named them."""

    brokers: Mapping[str, str]
    """Base URL by name."""
    bookies: tuple[str, ...]
    texts: tuple[RecordedText, ...]


class EstateRecorder:
    """Records the answers of one estate. A node that does not answer raises nothing."""

    def __init__(
        self, settings: PulsarSettings, namespaces: Iterable[str], bookie_http: str | None, limit_s: float = LIMIT_S
    ) -> None:
        """Raises NotConfigured; Unreachable if the local stack's Pulsar has ended.

        bookie_http: address of the bookies' HTTP interfaces with {host}; None: bookies are not asked.
        """
        self._base = settings.admin_address.rstrip("/")
        self._namespaces = tuple(namespaces)
        self._template = bookie_http
        self._limit_s = limit_s
        token = settings.token
        self._headers = {} if token is None else {"Authorization": f"Bearer {token.get_secret_value()}"}
        self._http = make_pool(settings, _CONNECTIONS)
        self._allowance = Allowance(MAX_TOTAL, MAX_BYTES)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._http.clear()

    def find(self) -> FoundNodes:
        """Return the nodes. If the configured address does not answer, it is the only one."""
        asked = questions.of_cluster_first(self._base, self._headers)
        replies = ask_all(self._http, asked, self._limit_s)
        named = node_of(CLUSTER, replies)
        texts = tuple(_text(CLUSTER, one, replies[one.key]) for one in asked)
        return FoundNodes(broker_urls(self._base, named), tuple(bookie_names(named)), texts)

    def record(self, nodes: FoundNodes) -> list[RecordedText]:
        """Return the answers of the cluster and of all nodes, but for statistics of topics. Raises InvalidInput if
        `bookie_http` is no address."""
        template = self._template
        bookies = nodes.bookies if template is not None else ()
        return self._record(
            {
                CLUSTER: list(self._of_cluster()),
                BROKERS: [one for name, base in nodes.brokers.items() for one in self._of_broker(name, base)],
                "bookies": [one for name in bookies for one in self._of_bookie(name, template or "")],
            }
        )

    def record_statistics(self, nodes: FoundNodes) -> list[RecordedText]:
        """Return each broker's last statistics of all its topics."""
        return self._record(
            {
                BROKERS: [
                    Question((name, TOPICS), f"{base}/admin/v2/broker-stats/topics", self._headers)
                    for name, base in nodes.brokers.items()
                ]
            }
        )

    def record_topics(self, topics: Iterable[str]) -> list[RecordedText]:
        """Return the statistics of topics, with the bookies of their ledgers. Brokers that do not own one redirect."""
        return self._record({LANES: [one for topic in topics for one in self._of_topic(topic)]})

    def _record(self, asked: Mapping[str, Sequence[Question]]) -> list[RecordedText]:
        """Ask all questions at once. asked: by kind."""
        replies = ask_all(self._http, chain.from_iterable(asked.values()), self._limit_s, self._allowance)
        return [_text(kind, one, replies[one.key]) for kind, some in asked.items() for one in some]

    # ------------------------------------------------------------ questions
    def _of_cluster(self) -> Iterator[Question]:
        for document, path in _OF_CLUSTER.items():
            yield Question((CLUSTER, document), f"{self._base}/admin/v2/{path}", self._headers)
        yield from questions.of_cluster(self._base, self._headers, self._namespaces)

    def _of_broker(self, name: str, base: str) -> Iterator[Question]:
        yield Question((name, METRICS), f"{base}/metrics/", self._headers)
        for document, path in _OF_BROKER.items():
            yield Question((name, document), f"{base}/admin/v2/{path}", self._headers)

    def _of_bookie(self, name: str, template: str) -> Iterator[Question]:
        base = questions.bookie_url(template, name)
        yield Question((name, METRICS), f"{base}/metrics")
        for document, path in _OF_BOOKIE.items():
            yield Question((name, document), f"{base}/api/v1/{path}")

    def _of_topic(self, topic: str) -> Iterator[Question]:
        namespace, _, name = topic.removeprefix("persistent://").rpartition("/")
        url = f"{self._base}/admin/v2/persistent/{quote(namespace)}/{quote(name, safe='')}"
        yield Question((topic, STATS), f"{url}/stats", self._headers)
        yield Question((topic, INTERNAL), f"{url}/internalStats?metadata=true", self._headers)


def _text(kind: str, asked: Question, reply: Reply) -> RecordedText:
    node, document = asked.key
    return RecordedText(kind, "" if kind == CLUSTER else node, document, reply.body, reply.failure, reply.cut)
