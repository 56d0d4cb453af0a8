"""How the memory of a machine is divided: system, broker, bookie, page cache.

Half of what the system leaves is for the page cache, since bookies read through it; the other half is for Java, of
which a third is heap and two thirds are direct memory.
"""

from dataclasses import dataclass

from estate.sizing.needs import GIB, MIB

SMALL_BYTES = 16 * GIB
"""Below this, a machine is divided by 64 MiB, and the system gets less."""
ZOOKEEPER_BYTES = 1 * GIB


@dataclass(frozen=True)
class JavaMemory:
    """Memory of one Java process."""

    heap_bytes: int
    direct_bytes: int

    @property
    def total_bytes(self) -> int:
        return self.heap_bytes + self.direct_bytes

    @property
    def flags(self) -> str:
        heap, direct = self.heap_bytes // MIB, self.direct_bytes // MIB
        return f"-Xms{heap}m -Xmx{heap}m -XX:MaxDirectMemorySize={direct}m"


@dataclass(frozen=True)
class MemorySplit:
    """The memory of one machine, in bytes."""

    system_bytes: int
    java: dict[str, JavaMemory]
    """Memory of the broker, the bookie or both, by name."""
    page_cache_bytes: int


def split_memory(memory_bytes: int, *, broker: bool, bookie: bool) -> MemorySplit:
    """Return the division of a machine that runs a broker, a bookie or both."""
    small = memory_bytes < SMALL_BYTES
    step = 64 * MIB if small else GIB
    system = max(memory_bytes // 8, 256 * MIB) // step * step if small else 2 * GIB
    rest = memory_bytes - system
    java = (rest // 2 if bookie else rest * 3 // 4) // step * step  # a broker reads no files
    of_broker = (java // 2 // step * step if bookie else java) if broker else 0
    parts = {"broker": of_broker, "bookie": java - of_broker}
    return MemorySplit(system, {name: _java_memory(part, step) for name, part in parts.items() if part}, rest - java)


def _java_memory(total_bytes: int, step: int) -> JavaMemory:
    heap = max(total_bytes // 3 // step * step, step)
    return JavaMemory(heap, max(total_bytes - heap, step))
