"""Records what the nodes of an estate answer, as texts, for a capture: all at once, each within the same limit."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from urllib.parse import quote

from backends.pulsar.estate import questions
from backends.pulsar.estate.asking import Allowance, Question, Reply, ask_all
from backends.pulsar.estate.questions import CLUSTER, METRICS, documents
from backends.pulsar.estate.reader import NodeAsker, bookie_names, broker_urls, node_of
from backends.settings import PulsarSettings

LIMIT_S = 5.0
"""How long one answer may take. The first list of a broker's MBeans took 3 s on a busy machine."""
MAX_BYTES = 16 << 20
"""Maximum size of one answer; the rest is cut."""
MAX_TOTAL = 64 << 20
"""Maximum size of all answers of one capture."""
_CONNECTIONS = 128

_OF_CLUSTER = {
    "dynamic-settings": "admin/v2/brokers/configuration/values",
    "internal-settings": "admin/v2/brokers/internal-configuration",
}
_OF_BROKER = {
    METRICS: "metrics/",
    "version": "admin/v2/brokers/version",
    "settings": "admin/v2/brokers/configuration/runtime",
    "load-report": "admin/v2/broker-stats/load-report",
    "mbeans": "admin/v2/broker-stats/mbeans",
    "memory": "admin/v2/broker-stats/allocator-stats/ml-cache",
}
_OF_BOOKIE = {
    METRICS: "metrics",
    "settings": "api/v1/config/server_config",
    "state": "api/v1/bookie/state",
    "disk": "api/v1/bookie/info",
    "cluster": "api/v1/bookie/cluster_info",
    "writable": "api/v1/bookie/list_bookies?type=rw",
    "read-only": "api/v1/bookie/list_bookies?type=ro",
    "garbage": "api/v1/bookie/gc_details",
    "journal-mark": "api/v1/bookie/last_log_mark",
    "files": "api/v1/bookie/list_disk_file",
    "auditor": "api/v1/autorecovery/who_is_auditor",
    "under-replicated": "api/v1/autorecovery/list_under_replicated_ledger",
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


class EstateRecorder(NodeAsker):
    """Records the answers of one estate."""

    def __init__(
        self, settings: PulsarSettings, namespaces: Iterable[str], bookie_http: str | None, limit_s: float = LIMIT_S
    ) -> None:
        """Raise as NodeAsker."""
        super().__init__(settings, bookie_http, limit_s, _CONNECTIONS)
        self._namespaces = tuple(namespaces)
        self._allowance = Allowance(MAX_TOTAL, MAX_BYTES)

    def find(self) -> FoundNodes:
        """Return the nodes. If the configured address does not answer, it is the only one."""
        asked = questions.of_cluster_first(self._base)
        replies = ask_all(self._http, asked, self._limit_s)
        named = node_of(CLUSTER, replies)
        texts = tuple(_text(CLUSTER, one, replies[one.key]) for one in asked)
        return FoundNodes(broker_urls(self._base, named), tuple(bookie_names(named)), texts)

    def record(self, nodes: FoundNodes) -> list[RecordedText]:
        """Return the answers of the cluster and of all nodes, but for statistics of topics. Raises InvalidInput if
        `bookie_http` is no address."""
        bookies = self._bookie_urls(nodes.bookies).items()
        of_bookies = [one for name, url in bookies for one in documents(name, url, _OF_BOOKIE, is_public=True)]
        of_cluster = documents(CLUSTER, self._base, _OF_CLUSTER)
        return self._record(
            {
                CLUSTER: [*of_cluster, *questions.of_cluster(self._base, self._namespaces)],
                BROKERS: [one for name, base in nodes.brokers.items() for one in documents(name, base, _OF_BROKER)],
                "bookies": of_bookies,
            }
        )

    def record_statistics(self, nodes: FoundNodes) -> list[RecordedText]:
        """Return each broker's last statistics of all its topics."""
        paths = {TOPICS: "admin/v2/broker-stats/topics"}
        asked = [one for name, base in nodes.brokers.items() for one in documents(name, base, paths)]
        return self._record({BROKERS: asked})

    def record_topics(self, topics: Iterable[str]) -> list[RecordedText]:
        """Return the statistics of topics, with the bookies of their ledgers. Brokers that do not own one redirect."""
        return self._record({LANES: [one for topic in topics for one in self._of_topic(topic)]})

    def _record(self, asked: Mapping[str, Sequence[Question]]) -> list[RecordedText]:
        """Ask all questions at once. asked: by kind."""
        replies = ask_all(self._http, chain.from_iterable(asked.values()), self._limit_s, self._allowance)
        return [_text(kind, one, replies[one.key]) for kind, some in asked.items() for one in some]

    def _of_topic(self, topic: str) -> Iterator[Question]:
        namespace, _, name = topic.removeprefix("persistent://").rpartition("/")
        url = f"{self._base}/admin/v2/persistent/{quote(namespace)}/{quote(name, safe='')}"
        return documents(topic, url, {STATS: "stats", INTERNAL: "internalStats?metadata=true"})


def _text(kind: str, asked: Question, reply: Reply) -> RecordedText:
    node, document = asked.key
    node = "" if kind == CLUSTER else node
    return RecordedText(kind=kind, node=node, document=document, body=reply.body, failure=reply.failure, cut=reply.cut)
