"""The same measure for all clients in Python: requests one after the other by a number of tasks."""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

PAYLOAD_TEXT = "World " * 63
"""Makes a payload of about 400 bytes."""


@dataclass(frozen=True)
class Work:
    """The work of a client."""

    port: int
    ca_file: str
    key_file: str
    requests: int
    in_flight: int
    connections: int


async def measured(send: Callable[[int], Awaitable[None]], work: Work) -> None:
    """Send the requests, after a tenth of them to get connected, and print the figures."""
    await _send(send, work.requests // 10, work.in_flight)
    began_s, cpu_s = time.perf_counter(), time.process_time()
    await _send(send, work.requests, work.in_flight)
    took_s, cpu_s = time.perf_counter() - began_s, time.process_time() - cpu_s
    print(json.dumps({"requests_s": work.requests / took_s, "cpu_us": cpu_s / work.requests * 1e6}))


async def _send(send: Callable[[int], Awaitable[None]], count: int, in_flight: int) -> None:
    numbers = iter(range(count))

    async def one_after_the_other() -> None:
        for number in numbers:
            await send(number)

    await asyncio.gather(*(one_after_the_other() for _ in range(in_flight)))
