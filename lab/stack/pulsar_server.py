"""One Pulsar standalone: its command line, and when it is ready."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import urllib3

from backends.bounded import NODE, open_http
from lab.stack import pulsar_conf
from lab.stack.homes import Home
from lab.stack.java import Java
from lab.stack.ports import HOST
from lab.stack.stored import StoredFile

HEAP = ("-Xms256m", "-Xmx1g", "-XX:MaxDirectMemorySize=768m", "-Xss512k")
"""Ten thousand lanes take 350 MB of this heap; an idle server has less than 700 MB resident."""
GC = (
    "-XX:+UseG1GC",
    "-XX:G1PeriodicGCInterval=60000",  # returns memory when idle
    "-XX:InitiatingHeapOccupancyPercent=70",  # of the committed heap; live data must stay well below it, or marking
    "-XX:-G1UseAdaptiveIHOP",  # never stops: 70 MB of 256 with few lanes; with many, the free ratios take care of it
    "-XX:MinHeapFreeRatio=40",
    "-XX:MaxHeapFreeRatio=60",
    "-XX:ReservedCodeCacheSize=128m",
    "-XX:+PerfDisableSharedMem",
)
OPENED = (
    "java.base/java.io",
    "java.base/java.nio",
    "java.base/java.util.zip",
    "java.base/jdk.internal.misc",
    "java.base/jdk.internal.platform",
    "java.management/sun.management",
    "jdk.management/com.sun.management.internal",
)
PROPERTIES = {
    "bookkeeper.metadata.bookie.drivers": "org.apache.pulsar.metadata.bookkeeper.PulsarMetadataBookieDriver",
    "bookkeeper.metadata.client.drivers": "org.apache.pulsar.metadata.bookkeeper.PulsarMetadataClientDriver",
    "io.netty.recycler.maxCapacityPerThread": "1024",
    "io.netty.tryReflectionSetAccessible": "true",
    "org.apache.pulsar.shade.io.netty.tryReflectionSetAccessible": "true",
    "java.net.preferIPv4Stack": "true",
    "jute.maxbuffer": "10485760",
    "log4j.configurationFile": "log4j2.yaml",
    "log4j.shutdownHookEnabled": "false",
    "log4j2.is.webapp": "false",
    "pulsar.allocator.exit_on_oom": "true",
}
MAIN = "org.apache.pulsar.PulsarStandaloneStarter"


@dataclass(frozen=True)
class PulsarPorts:
    """The ports of one Pulsar."""

    broker: int
    """The binary protocol."""
    web: int
    """REST."""
    bookie: int
    """Its storage; part of the name that identifies its data."""


def command(
    java: Java, distribution: Path, home: Home, ports: PulsarPorts, more: Mapping[str, str] | None = None
) -> list[str]:
    """Return the whole command line, for `home.pulsar` as the current directory. more: additional settings."""
    conf = pulsar_conf.write(distribution, home.pulsar, ports.broker, ports.web, more=more)
    arguments = [
        f"--config={conf}",
        "--no-functions-worker",
        "--no-stream-storage",
        f"--advertised-address={HOST}",
        "--bookkeeper-dir=bookkeeper",
        f"--bookkeeper-port={ports.bookie}",
        "--metadata-url=rocksdb:metadata",
    ]
    return java_command(java, distribution, JavaProgram(MAIN, arguments, home.pulsar, home.logs))


@dataclass(frozen=True)
class JavaProgram:
    """A program of the distribution."""

    main: str
    """Its class."""
    arguments: Sequence[str]
    directory: Path
    """The current directory, which has its log4j2.yaml."""
    logs: Path
    memory: Sequence[str] = (*HEAP, *GC)
    """Options of Java's memory."""


def java_command(java: Java, distribution: Path, program: JavaProgram) -> list[str]:
    """Return a command line, for `program.directory` as the current directory.

    It uses neither the distribution's own start script nor absolute paths to the data: both break on spaces.
    """
    return [
        str(java.program),
        *program.memory,
        f"-XX:ErrorFile={program.logs}/pulsar-crash-%p.log",
        *(part for name in OPENED for part in ("--add-opens", f"{name}=ALL-UNNAMED")),
        *(("--sun-misc-unsafe-memory-access=allow",) if java.version >= 23 else ()),
        *(f"-D{name}={value}" for name, value in PROPERTIES.items()),
        f"-Dpulsar.log.dir={program.logs}",
        "-cp",
        f"{program.directory}:{distribution}/lib/*",
        program.main,
        *program.arguments,
    ]


def environment(env: Mapping[str, str]) -> dict[str, str]:
    """Return the caller's environment, with a low limit on the C library's memory arenas.

    The locale is one of UTF-8 and in English: with `LC_ALL=C` Java opens no file whose path has other letters, and
    `died` looks for the system's words.
    """
    return {**env, "MALLOC_ARENA_MAX": "2", "LC_ALL": "C.UTF-8"}


def is_ready(web_port: int) -> bool:
    """Return whether the broker serves messages and has its namespace.

    The broker's own health check sends and receives a message.
    """
    base = f"http://{HOST}:{web_port}/admin/v2"
    namespaces = answer_of(f"{base}/namespaces/public")
    return b"public/default" in (namespaces or b"") and answer_of(f"{base}/brokers/health") == b"ok"


def answer_of(url: str) -> bytes | None:
    """Return the body of an answer with status 200; None if there is none."""
    http = open_http(NODE, retries=False, timeout=urllib3.Timeout(connect=1, read=5))
    try:
        response = http.request("GET", url)
        return response.data if response.status == 200 else None
    except urllib3.exceptions.HTTPError:
        return None
    finally:
        http.clear()


def stored_bookie_port(home: Home) -> StoredFile[int]:
    """Return the file that keeps the bookie's port beside the data that is bound to it."""
    return StoredFile(home.pulsar / "bookie-port", int, "Delete Pulsar's data: `fairlane stack down --wipe`.")
