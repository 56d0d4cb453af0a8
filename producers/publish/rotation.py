"""Selection of the partition for the next messages: in turn, one batch each, skipping full and silent partitions."""

from collections.abc import Sequence

from producers.publish.in_flight import SendWindow
from producers.publish.tuning import ProducerSettings


class PartitionRotation:
    """The partitions of one lane in turn. Not safe for threads by itself.

    A partition that owes answers and has given none for `late_s` gets nothing new as long as another one answers: new
    messages would only wait there and hold up the gapless confirmation. If all are silent, Pulsar itself is slow, and
    the partitions with room continue.
    """

    def __init__(self, settings: ProducerSettings, late_s: float, now_s: float) -> None:
        self.windows = [
            SendWindow(settings.pending_messages, settings.partition_bytes, now_s) for _ in range(settings.partitions)
        ]
        self._settings = settings
        self._late_s = late_s
        self._at = 0
        self._messages = 0
        self._bytes = 0
        self._began_s = now_s

    def cut(self, bodies: Sequence[bytes], start: int, now_s: float) -> tuple[int, int]:
        """Return (end, bytes) of the piece from `start` on that fills the current batch or begins the next one."""
        settings = self._settings
        if self._messages and (now_s - self._began_s) * 1000 >= settings.batch_delay_ms:
            self._turn()  # the client has sent it
        if self._messages and self._bytes + len(bodies[start]) > settings.batch_bytes:
            self._turn()
        end, size = start + 1, len(bodies[start])
        last = min(len(bodies), start + settings.batch_messages - self._messages)
        while end < last and self._bytes + size + len(bodies[end]) <= settings.batch_bytes:
            size += len(bodies[end])
            end += 1
        return end, size

    def choose(self, messages: int, size: int, now_s: float) -> int | None:
        """Return the partition for a piece; None if the piece has to wait."""
        count = len(self.windows)
        order = [(self._at + step) % count for step in range(count)]
        free = [index for index in order if self.windows[index].takes(messages, size)]
        prompt = next((index for index in free if self.windows[index].silent_s(now_s) < self._late_s), None)
        if prompt is None and free and all(window.silent_s(now_s) >= self._late_s for window in self.windows):
            return free[0]
        return prompt

    def add(self, index: int, first: int, messages: int, size: int, now_s: float) -> None:
        """Assign the piece to that partition. first: the number of its first message."""
        self.windows[index].add(first, messages, size, now_s)
        if index != self._at:
            self._at, self._messages, self._bytes = index, 0, 0
        if not self._messages:
            self._began_s = now_s
        self._messages += messages
        self._bytes += size
        if self._messages >= self._settings.batch_messages or self._bytes >= self._settings.batch_bytes:
            self._turn()

    def silent_s(self, now_s: float) -> float:
        """Return for how long no partition that owes answers has given one; 0 if none owes any."""
        return min((window.silent_s(now_s) for window in self.windows if window.messages), default=0.0)

    def _turn(self) -> None:
        self._at = (self._at + 1) % len(self.windows)
        self._messages = self._bytes = 0
