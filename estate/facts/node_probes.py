"""Probes of single nodes, end to end from here: a message through a broker, a question to a bookie."""

import os
import secrets
import time
from contextlib import closing, suppress
from typing import Any

import pulsar
import urllib3

from backends.bounded import NODE, open_http
from backends.pulsar.admin import PulsarAdmin, settings_at
from backends.pulsar.client import connect, translated
from backends.settings import PulsarSettings
from dispatcher.model.errors import Unreachable
from estate.facts.questions import bookie_url

PROBE_LIMIT_S = 2.0
"""A probe without an answer for this long has failed."""
_SUBSCRIPTION = "fairlane-guard"


class BrokerProbe:
    """Publishes to one broker and reads back, in the namespace of its own heartbeats: the only one that Pulsar never
    moves, so that a broker is also probed while it is drained.

    The topic is not persistent. No bookie takes part, so a slow bookie does not make its brokers look slow.
    """

    def __init__(self, settings: PulsarSettings, broker: str, *, alone: bool) -> None:
        """broker: host:port of its REST address. alone: as in settings_at."""
        limits = {"operation_timeout_s": PROBE_LIMIT_S, "connect_timeout_s": PROBE_LIMIT_S}
        self._settings = settings_at(settings, broker, alone=alone).model_copy(update=limits)
        self._topic = f"non-persistent://pulsar/{broker}/fairlane-guard"
        self._what = f"probe broker {broker}"
        self._client: Any = None

    def once(self) -> float:
        """Return the seconds from publishing to reading back. Raises Unreachable after PROBE_LIMIT_S, and Refused."""
        try:
            if self._client is None:
                self._open()
            return self._round_trip()
        except BaseException:
            self.close()  # the vendor's client connects again after up to a minute, a new one at once
            raise

    def _open(self) -> None:
        with closing(PulsarAdmin(self._settings)) as admin:
            admin.create_topic(self._topic)  # topics are not created by clients here
        self._client = connect(self._settings, os.devnull)
        with translated(self._what, self._client):
            name = f"{_SUBSCRIPTION}-{secrets.token_hex(4)}"
            self._consumer = self._client.subscribe(self._topic, name)
            self._producer = self._client.create_producer(self._topic, batching_enabled=False)

    def _round_trip(self) -> float:
        nonce = secrets.token_bytes(16)
        with translated(self._what, self._client):
            sent_s = time.monotonic()
            self._producer.send_async(nonce, _ignore)
            while (left_s := sent_s + PROBE_LIMIT_S - time.monotonic()) > 0:
                message = self._consumer.receive(max(1, round(left_s * 1000)))
                self._consumer.acknowledge(message)
                if message.data() == nonce:
                    return time.monotonic() - sent_s
        raise Unreachable(f"{self._what}: its message did not come back.")

    def close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            with suppress(pulsar.PulsarException):
                client.shutdown()


def _ignore(_result: Any, _message_id: Any) -> None:
    """Receipts say less than the message that is read back."""


class BookieProbe:
    """Asks a bookie's HTTP interface whether it is ready. A read-only bookie takes no writes that could be timed."""

    def __init__(self, template: str, bookie: str) -> None:
        """template: address of the bookies' HTTP interfaces with {host}. Raises InvalidInput if it is none."""
        self._url = f"{bookie_url(template, bookie)}/api/v1/bookie/is_ready"
        self._what = f"probe bookie {bookie}"
        self._http = open_http(NODE, retries=False, timeout=PROBE_LIMIT_S)

    def once(self) -> float:
        """Return the seconds until it answered. Raises Unreachable."""
        asked_s = time.monotonic()
        try:
            answer = self._http.request("GET", self._url)
        except urllib3.exceptions.HTTPError as error:
            raise Unreachable(f"{self._what}: no answer.") from error
        if answer.status != 200:
            raise Unreachable(f"{self._what}: answered {answer.status}.")
        return time.monotonic() - asked_s

    def close(self) -> None:
        self._http.clear()
