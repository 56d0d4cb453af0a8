"""pycurl and pulsar-client in one process. Each brings OpenSSL and libcurl of its own."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[5]
PROGRAM = """
import asyncio, sys
from pathlib import Path

loop, first, folder = sys.argv[1], sys.argv[2], Path(sys.argv[3])
if first == "pulsar":
    import pulsar
    import pycurl
else:
    import pycurl
    import pulsar
import uvloop

from consumers.delivery.http2.port import HttpResponse
from tests.unit.dispatch.consumers.http2.calls import attempts, opened
from tests.unit.dispatch.consumers.http2.frame_server import Plan, serving


def pulsar_fails(tls: bool, port: int) -> None:
    # With TLS, the client meets the frame server, whose certificate it accepts, and breaks off.
    url = f"pulsar+ssl://127.0.0.1:{port}" if tls else "pulsar://127.0.0.1:1"
    trusted = {"tls_trust_certs_file_path": str(folder / "ca.pem")} if tls else {}
    logger = pulsar.FileLogger(pulsar.LoggerLevel.Error, str(folder / "pulsar.log"))
    client = pulsar.Client(url, operation_timeout_seconds=1, connection_timeout_ms=500, logger=logger, **trusted)
    try:
        client.create_producer("persistent://public/default/nothing")
    except pulsar.PulsarException:
        pass
    else:
        raise AssertionError("there is no Pulsar")
    client.close()


async def main() -> None:
    async with serving(folder, Plan()) as server, opened(folder) as client:
        for round in range(2):
            tries = [asyncio.to_thread(pulsar_fails, tls, server.port) for tls in (False, True)]
            names = [f"{round}-{number}" for number in range(100)]
            found, *_ = await asyncio.gather(attempts(client, server, names), *tries)
            assert all(isinstance(one, HttpResponse) for one in found.values()), found
            client.renew_connections()
        assert max(server.seen.accepted.values()) == 1 and len(server.seen.accepted) == 200
        assert server.seen.connections >= 2 + 2  # the handshakes of Pulsar's client, too


factory = asyncio.new_event_loop if loop == "asyncio" else uvloop.new_event_loop
with asyncio.Runner(loop_factory=factory) as runner:
    runner.run(main())
print("served")
"""


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
@pytest.mark.parametrize("first", ["pulsar", "pycurl"])
def test_both_connect_by_tls_side_by_side(certificates: Path, loop: str, first: str) -> None:
    command = [sys.executable, "-c", PROGRAM, loop, first, str(certificates)]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert (ended.returncode, ended.stdout.strip()) == (0, "served"), ended.stderr
