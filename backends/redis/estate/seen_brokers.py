"""When each broker last answered. It names brokers that Pulsar has forgotten, until Redis is emptied."""

from collections.abc import Iterable, Mapping

from backends.redis.view import ViewPart


class SeenBrokers(ViewPart):
    """Every method raises Unreachable if Redis cannot be reached."""

    def read(self) -> dict[str, int]:
        """Return the Unix ms, by Redis' clock, at which each broker last answered."""
        stored = self._view.texts(self._view.keys.seen_brokers)
        return {name: int(at_ms) for name, at_ms in stored.items() if at_ms.isdecimal()}

    def note(self, answering: Iterable[str], missing: int) -> Mapping[str, int]:
        """Note the brokers that answer now. Return those that do not: the `missing` ones that were seen last.

        Others have been replaced by brokers of another name, and are forgotten.
        """
        key, now_ms, here = self._view.keys.seen_brokers, self._view.now_ms(), set(answering)
        others = sorted(((at_ms, name) for name, at_ms in self.read().items() if name not in here), reverse=True)
        if here:
            self._view.command("HSET", key, *(part for name in sorted(here) for part in (name, now_ms)))
        if replaced := [name for _, name in others[missing:]]:
            self._view.command("HDEL", key, *replaced)
        return {name: at_ms for at_ms, name in others[:missing]}
