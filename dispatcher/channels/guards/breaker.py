"""Flows whose provider did not work: each is probed after a pause, and paused for twice as long if that fails."""

LONGEST_PAUSE_S = 300.0


class Breaker:
    """The flows that are paused or probed because their provider did not work."""

    def __init__(self) -> None:
        self._paused_s: dict[str, float] = {}
        """The length of the last pause, by flow."""

    def pause_s(self, flow: str, asked_s: float) -> float:
        """Record that the flow's provider does not work. Return for how long to pause: what the provider asks for, or
        twice the last time."""
        last_s = self._paused_s.get(flow)
        paused_s = asked_s if last_s is None else max(asked_s, min(2 * last_s, LONGEST_PAUSE_S))
        self._paused_s[flow] = paused_s
        return paused_s

    def note(self, flow: str, paused_s: float) -> None:
        """Note a pause that another worker made."""
        self._paused_s[flow] = max(paused_s, self._paused_s.get(flow, 0.0))

    def is_probed(self, flow: str) -> bool:
        """Return whether the provider has not answered since. Ask only while the flow is not paused."""
        return flow in self._paused_s

    def works(self, flow: str) -> None:
        """Record that the provider answers."""
        self._paused_s.pop(flow, None)
