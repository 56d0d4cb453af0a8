"""The call of a channel that reports on its targets one by one, while it runs."""

from collections.abc import Sequence

from dispatcher.verdicts import read_verdict
from dispatcher.wire.envelope import Envelope
from dispatcher.wire.outcome import ALL_SENT, SENT, UNKNOWN, UNSENT, Outcome, Report, Verdict

_SENT = int(Outcome.SENT)


class TargetResults:
    """State of the targets of one envelope: not started, started, or judged. The first verdict counts."""

    __slots__ = ("_is_closed", "_started", "_verdicts", "envelope")

    def __init__(self, envelope: Envelope) -> None:
        self.envelope = envelope
        count = len(envelope.targets)
        self._started = bytearray(count)
        self._verdicts: list[Verdict | None] = [None] * count
        self._is_closed = False

    def start(self, index: int) -> bool:
        """Record that the request of the target at `index` is about to be sent: the provider may take it from now on.

        Return False if the channel's call has already ended, for example by its timeout. The target must then not be
        sent, since it may have been granted to another worker.
        """
        if self._is_closed:
            return False
        self._started[index] = 1
        return True

    def not_taken(self, index: int) -> None:
        """Record that the provider cannot have taken the target, although its request was started."""
        self._started[index] = 0

    def report(self, index: int, verdict: Verdict) -> None:
        """Report on the target at `index`. Raises ValueError for something that is no verdict, IndexError for an index
        that no target has."""
        if index < 0:
            raise IndexError(index)
        if self._verdicts[index] is None:
            self._verdicts[index] = verdict if verdict is SENT else read_verdict(verdict, _refuse)

    @property
    def is_begun(self) -> bool:
        """Whether any target was started or judged."""
        return any(self._started) or any(self._verdicts)

    def report_unstarted(self, verdict: Verdict) -> None:
        """Report on all targets that were neither started nor judged."""
        checked = read_verdict(verdict, _refuse)
        for index, started in enumerate(self._started):
            if not started and self._verdicts[index] is None:
                self._verdicts[index] = checked

    def close(self, reason: str) -> Report | None:
        """Return the report on the envelope; None if nothing of it was started. No target can be started any more.

        `reason`: why the call ended before the targets that are still open were judged.
        """
        self._is_closed = True
        if not self.is_begun:
            return None
        unknown, unsent = Verdict(UNKNOWN, reason), Verdict(UNSENT, reason)
        return _report(
            [
                verdict or (unknown if started else unsent)
                for verdict, started in zip(self._verdicts, self._started, strict=True)
            ]
        )


class ProviderCall:
    """Envelopes on their way to a provider, and what is known about them so far."""

    __slots__ = ("deadline_s", "envelopes", "tier")

    def __init__(self, envelopes: Sequence[Envelope], tier: str, deadline_s: float) -> None:
        self.envelopes = [TargetResults(envelope) for envelope in envelopes]
        self.tier = tier
        """Tier of the lane."""
        self.deadline_s = deadline_s
        """Monotonic time at which the call is cancelled. A request that could end later must not start."""

    def close(self, reason: str) -> list[Report | None]:
        """Return a report for each envelope; see TargetResults.close."""
        return [results.close(reason) for results in self.envelopes]


def _refuse(fault: str) -> None:
    raise ValueError(fault)


def _report(verdicts: list[Verdict]) -> Report:
    """Return the report on an envelope with these verdicts, in the order of its targets."""
    if all(verdict is SENT or (verdict.code == _SENT and not verdict.provider_id) for verdict in verdicts):
        return ALL_SENT
    common = next((verdict for verdict in verdicts if verdict.code == _SENT), verdicts[0])
    exceptions = {index: verdict for index, verdict in enumerate(verdicts) if verdict is not common}
    return Report(common, exceptions or None)
