"""Notes in Redis on the nodes of the estate: when each broker answered."""

from collections.abc import Iterable, Mapping

from backends.redis.view import ViewPart


class SeenBrokers(ViewPart):
    """When each broker last answered. It names brokers that Pulsar has forgotten, until Redis is emptied. Every method
    raises Unreachable if Redis cannot be reached."""

    def read(self) -> dict[str, int]:
        """Return the Unix ms, by Redis' clock, at which each broker last answered."""
        stored = self._view.texts(self._view.keys.seen_brokers)
        return {name: int(at_ms) for name, at_ms in stored.items() if at_ms.isdecimal()}

    def note(self, answering: Iterable[str], silent: Iterable[str], missing: int) -> Mapping[str, int]:
        """Note the brokers that answer now, and those that are listed and do not. Return the lost ones: of those that
        do not answer, the `missing` ones that were seen last.

        Others have been replaced by brokers of another name, and are forgotten.
        """
        key, now_ms, here = self._view.keys.seen_brokers, self._view.now_ms(), dict.fromkeys(sorted(answering), 0)
        seen = dict.fromkeys(silent, now_ms) | self.read() | dict.fromkeys(here, now_ms)
        away = sorted(seen.keys() - here.keys(), key=lambda name: (-seen[name], name))
        if kept := [*here, *away[:missing]]:
            self._view.command("HSET", key, *(part for name in kept for part in (name, seen[name])))
        if away[missing:]:
            self._view.command("HDEL", key, *away[missing:])
        return {name: seen[name] for name in away[:missing]}
