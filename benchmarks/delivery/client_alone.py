"""The HTTP/2 client alone: requests/s and CPU of a process that sends single-target requests and nothing else."""

import asyncio
import json
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec

from benchmarks.delivery.cores import CLIENT, run_on
from benchmarks.delivery.frame_server import Orders
from consumers.delivery.http2.curl_client import CurlClient
from consumers.delivery.http2.port import HttpClient, HttpRequest
from consumers.delivery.http2.settings import ClientSettings
from lab.fake.certificates import make_tls_files

HEADERS = (("authorization", "Bearer " + "x" * 1_000), ("content-type", "application/json"))
"""As long as those of FCM."""
BODY_BYTES = 420


class Load(msgspec.Struct, frozen=True, kw_only=True):
    """The work of the client."""

    url: str = ""
    ca_file: str = ""
    connections: int = 10
    streams: int = 100
    requests: int = 100_000


def run(load: Load, latency_ms: float) -> dict[str, float]:
    """Measure once, with a server of its own. Returns figures by name."""
    with TemporaryDirectory(prefix="fairlane-bench-") as folder:
        make_tls_files(Path(folder), "127.0.0.1")
        orders = Orders(folder, latency_ms, load.streams)
        with serving(orders) as (url, ended):
            result = _client(msgspec.structs.replace(load, url=url, ca_file=f"{folder}/ca.pem"))
        return {**result, "server_cpu_us": ended[0]["cpu_s"] / ended[0]["answered"] * 1e6}


@contextmanager
def serving(orders: Orders) -> Iterator[tuple[str, list[dict[str, float]]]]:
    """Yield its address, and a list that holds what it has done once it has ended."""
    with server("frame_server", orders) as (port, ended):
        yield f"https://127.0.0.1:{port}/v1/projects/demo/messages:send", ended


@contextmanager
def server(module: str, orders: msgspec.Struct) -> Iterator[tuple[int, list[dict[str, float]]]]:
    """Yield the port of a server of this package, and a list that holds what it has done once it has ended."""
    command = [sys.executable, "-m", f"benchmarks.delivery.{module}", msgspec.json.encode(orders).decode()]
    ended: list[dict[str, float]] = []
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            yield int(process.stdout.readline()), ended
        finally:
            process.stdin.close()
            ended.append(json.loads(process.stdout.readline()))


def _client(load: Load) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks.delivery.client_alone", msgspec.json.encode(load).decode()]
    ended = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return dict(json.loads(ended.stdout))


# ---------------------------------------------------------------- in the client's process
async def send_all(load: Load) -> None:
    """Send the requests, after a tenth of them to get connected, and print the figures."""
    client = CurlClient(ClientSettings(ca_file=load.ca_file, connections=load.connections, streams=load.streams))
    await _send(client, load, load.requests // 10)
    cpu_s, began_s = time.process_time(), time.perf_counter()
    seconds = await _send(client, load, load.requests)
    took_s, cpu_s = time.perf_counter() - began_s, time.process_time() - cpu_s
    await client.close()
    percentiles = statistics.quantiles(seconds, n=100)
    figures = {
        "requests_s": len(seconds) / took_s,
        "cpu_us": cpu_s / len(seconds) * 1e6,
        "p50_ms": percentiles[49] * 1e3,
        "p99_ms": percentiles[98] * 1e3,
        "memory_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1_024,
    }
    print(json.dumps(figures))


async def _send(client: HttpClient, load: Load, count: int) -> list[float]:
    """Return how long each request took."""
    seconds: list[float] = []
    numbers = iter(range(count))

    async def one_after_the_other() -> None:
        for number in numbers:
            body = b'{"message":{"token":"%020d"}}' % number
            began_s = time.perf_counter()
            answer = await client.send(HttpRequest(url=load.url, body=body.ljust(BODY_BYTES), headers=HEADERS))
            seconds.append(time.perf_counter() - began_s)
            assert answer.status == 200

    await asyncio.gather(*(one_after_the_other() for _ in range(load.connections * load.streams)))
    return seconds


if __name__ == "__main__":
    run_on(CLIENT, send_all(msgspec.json.decode(sys.argv[1], type=Load)))
