"""Reads an estate: first the names of its nodes, then all of them at once."""

import json
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlsplit

from backends.pulsar.admin import broker_url, make_pool
from backends.settings import PulsarSettings
from dispatcher.model.errors import DECODING_ERRORS, Malformed
from dispatcher.wire.topics import Topics
from estate.facts import questions
from estate.facts.answers import EstateAnswer, Metrics, NodeAnswer
from estate.facts.asking import LIMIT_S, NodeReply, Question, ask_all
from estate.facts.metrics_text import parse_metrics
from estate.facts.questions import CLUSTER, METRICS, Depth

Replies = Mapping[tuple[str, str], NodeReply]
_CONNECTIONS = 64
"""Connections to one node that are kept: a look asks everything at once."""
FIRST_SPAN_S = 1.0
"""Span of time that the first look covers. Counts since a broker's start say nothing about now."""


@dataclass(frozen=True)
class FoundNodes:
    """The nodes that the cluster lists, and the answers that named them."""

    brokers: Mapping[str, str]
    """Base URL by name."""
    bookies: Sequence[str]
    replies: Replies


class EstateReader:
    """Asks all nodes of one estate, as often as `read` is called. One thread at a time may use it.

    A node that does not answer raises nothing.
    """

    def __init__(
        self, settings: PulsarSettings, names: Topics, bookie_http: str | None, limit_s: float = LIMIT_S
    ) -> None:
        """Raises NotConfigured; Unreachable if the local stack's Pulsar has ended.

        bookie_http: address of the bookies' HTTP interfaces with {host}; None: bookies are not asked. limit_s: how long
        an answer may take.
        """
        self._base = self._configured = settings.admin_address.rstrip("/")
        self._template = bookie_http
        self._limit_s = limit_s
        self._http = make_pool(settings, _CONNECTIONS)
        self._known: list[str] = []
        """Base URLs of the brokers that were listed last."""
        self._metrics: dict[str, Metrics] = {}
        """Metrics of brokers at the last look."""
        self._names = names

    def close(self) -> None:
        self._http.clear()

    def read(self, depth: Depth = Depth.FIGURES) -> EstateAnswer:
        """Return what all nodes answered, after at most twice the limit: the nodes' names come first.

        If the configured address does not answer, the brokers known from an earlier look are asked for the names too,
        which takes the limit once more. The first look asks the brokers for their metrics twice, and takes FIRST_SPAN_S
        longer. Raises InvalidInput if `bookie_http` is no address.
        """
        found = self.find()
        earlier = self._metrics or self._first_metrics(found.brokers)
        replies = self.ask(found, depth)
        nodes = [replace(node_of(name, replies), earlier=earlier.get(name)) for name in found.brokers]
        self._metrics = {node.name: node.metrics for node in nodes if node.metrics is not None}
        return EstateAnswer(
            cluster=node_of(CLUSTER, {**found.replies, **replies}),
            brokers=tuple(nodes),
            bookies=tuple(node_of(name, replies) for name in found.bookies),
            asked_bookies=self._template is not None,
        )

    def find(self) -> FoundNodes:
        """Return the nodes that the cluster lists; the broker at the configured address if it lists none."""
        first: Replies = ask_all(self._http, questions.of_cluster_first(self._configured), self._limit_s)
        self._base = self._configured
        others = [url for url in self._known if url != self._configured]
        if first[CLUSTER, "brokers"].failure and others:
            self._base, first = self._ask_others(first, others)
        named = node_of(CLUSTER, first)
        brokers = broker_urls(self._base, named)
        if named.documents.get("brokers"):
            self._known = list(brokers.values())
        return FoundNodes(brokers, bookie_names(named), first)

    def ask(self, found: FoundNodes, depth: Depth) -> Replies:
        """Return the answers of the nodes, all asked at once. Raises InvalidInput if `bookie_http` is no address."""
        asked = list(questions.of_cluster(self._base, self._names.all_namespaces()))
        if Depth.STORAGE in depth:
            asked += questions.of_ledgers(self._base, self._names.system_topics())
        for name, base in found.brokers.items():
            asked += questions.of_broker(name, base, depth)
        if self._template is not None:
            for name in found.bookies:
                asked += questions.of_bookie(name, questions.bookie_url(self._template, name), depth)
        return ask_all(self._http, asked, self._limit_s)

    def ask_topics(self, topics: Iterable[str]) -> Replies:
        """Return the statistics of topics, with the bookies of their ledgers. Brokers that do not own one redirect."""
        return ask_all(self._http, questions.of_topics(self._base, topics), self._limit_s)

    def _first_metrics(self, brokers: Mapping[str, str]) -> dict[str, Metrics]:
        """Return the metrics of brokers, as far as they answer, after FIRST_SPAN_S."""
        asked = [Question((name, METRICS), f"{base}/metrics/") for name, base in brokers.items()]
        end_s = time.monotonic() + FIRST_SPAN_S
        replies = ask_all(self._http, asked, self._limit_s)
        answers = {name: node_of(name, replies).metrics for name in brokers}
        time.sleep(max(0.0, end_s - time.monotonic()))
        return {name: metrics for name, metrics in answers.items() if metrics is not None}

    def _ask_others(self, first: Replies, others: Iterable[str]) -> tuple[str, Replies]:
        """Return the address and the answers of a broker that answers; those of the configured one if none does."""
        asked = [each for url in others for each in questions.of_cluster_first(url, url)]
        replies = ask_all(self._http, asked, self._limit_s)
        for url in others:
            answers = {(CLUSTER, document): reply for (node, document), reply in replies.items() if node == url}
            if not answers[CLUSTER, "brokers"].failure:
                return url, answers
        return self._configured, first


def broker_urls(base: str, cluster: NodeAnswer) -> dict[str, str]:
    """Return the base URL of each broker, by name. base: the configured address.

    A single broker is reached at the configured address: the name it has for itself may not resolve here.
    """
    names = cluster.documents.get("brokers")
    address = urlsplit(base)
    if not isinstance(names, list) or not names:
        return {address.netloc.rpartition("@")[2]: base}
    if len(names) == 1:
        return {str(names[0]): base}
    return {name: broker_url(base, name) for name in sorted(map(str, names))}


def bookie_names(cluster: NodeAnswer) -> list[str]:
    """Return the ids of the bookies that the cluster lists."""
    document = cluster.documents.get("bookies")
    listed = document.get("bookies", []) if isinstance(document, dict) else []
    return sorted(str(each["bookieId"]) for each in listed if isinstance(each, dict) and "bookieId" in each)


def node_of(name: str, replies: Replies) -> NodeAnswer:
    """Return the answer of one node among replies."""
    documents: dict[str, Any] = {}
    failures: dict[str, str] = {}
    metrics: Metrics | None = None
    for (node, document), reply in replies.items():
        if node != name:
            continue
        try:
            if reply.failure:
                failures[document] = reply.failure
            elif document == METRICS:
                metrics = parse_metrics(reply.body.decode(errors="replace"))
            else:
                documents[document] = _parsed(reply.body)
        except Malformed as error:
            failures[document] = error.cause
    return NodeAnswer(name=name, documents=documents, metrics=metrics, failures=failures)


def _parsed(body: bytes) -> Any:
    """Return a JSON document, or the text where a node answers in words."""
    text = body.decode(errors="replace")
    try:
        return json.loads(text)
    except DECODING_ERRORS:
        return text.strip()
