"""Run a fake until it is asked to stop."""

import asyncio
import signal
from collections.abc import Callable
from importlib.util import find_spec

from fairlane.fake.certificates import TlsFiles
from fairlane.fake.server import serving
from fairlane.fake.site import Site


def run_fake(site: Site, files: TlsFiles, host: str, port: int, on_ready: Callable[[str], None]) -> None:
    """Serve until SIGTERM or SIGINT. `on_ready` gets the fake's address. Raises Refused if the port is taken."""

    async def main() -> None:
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stop.set)
        async with serving(site, files, host, port) as served:
            on_ready(f"https://{f'[{host}]' if ':' in host else host}:{served}")
            await stop.wait()

    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        runner.run(main())


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """Use uvloop where it is installed."""
    if find_spec("uvloop") is None:
        return None
    import uvloop

    return uvloop.new_event_loop
