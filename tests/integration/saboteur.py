"""A provider in whose worker Fairlane is broken: some outcomes are never recorded, some targets are called twice."""

from collections.abc import Sequence
from itertools import count
from typing import Any

from backends.pulsar.record_topics import OutcomeTopic
from benchmarks.nemesis.provider import NemesisChannel
from dispatcher.wire.envelope import Envelope
from dispatcher.wire.outcome import Report

EVERY = 20


class Saboteur(NemesisChannel):
    """Lose one record in twenty and acknowledge it all the same; make one call in twenty twice."""

    async def open(self) -> None:
        await super().open()
        publish, records = OutcomeTopic.publish, count(1)

        def forgetful(log: OutcomeTopic, task: str, record: Any, done: Any) -> None:
            if next(records) % EVERY:
                publish(log, task, record, done)
            else:
                done(None)

        OutcomeTopic.publish = forgetful  # type: ignore[method-assign,assignment]
        self.calls = count(1)

    async def deliver(self, envelopes: Sequence[Envelope], tier: str) -> Sequence[Report]:
        if next(self.calls) % EVERY == 0:
            self.note(envelopes)
        return await super().deliver(envelopes, tier)
