"""A TCP proxy that answers late: what the server says is passed on after a while, in order and at full width."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

_CHUNK = 1 << 16


class _Proxy:
    def __init__(self, to_port: int, delay_s: float) -> None:
        self._to_port = to_port
        self._delay_s = delay_s

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection, until either side hangs up."""
        from_server, to_server = await asyncio.open_connection("127.0.0.1", self._to_port)
        ways = [self._pass_on(reader, to_server, 0.0), self._pass_on(from_server, writer, self._delay_s)]
        tasks = [asyncio.create_task(way) for way in ways]
        with suppress(OSError):
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            task.cancel()
        for end in (writer, to_server):
            end.close()

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, delay_s: float) -> None:
        loop = asyncio.get_running_loop()
        while chunk := await reader.read(_CHUNK):
            loop.call_later(delay_s, _write, writer, chunk)


def _write(writer: asyncio.StreamWriter, chunk: bytes) -> None:
    if not writer.is_closing():
        writer.write(chunk)


@contextmanager
def delaying_proxy(to_port: int, delay_s: float) -> Iterator[int]:
    """The port to connect to instead, for as long as the context lasts."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    proxy = _Proxy(to_port, delay_s)
    starting = asyncio.run_coroutine_threadsafe(asyncio.start_server(proxy.serve, "127.0.0.1", 0), loop)
    server = starting.result(10)
    try:
        yield int(server.sockets[0].getsockname()[1])
    finally:
        asyncio.run_coroutine_threadsafe(_end(server), loop).result(10)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        loop.close()


async def _end(server: asyncio.Server) -> None:
    server.close()
    mine = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    for task in mine:
        task.cancel()
    await asyncio.gather(*mine, return_exceptions=True)
