"""Send notifications with aioapns, in an environment of its own. Prints figures; see run.py."""

import json
import logging
import ssl
import sys
from pathlib import Path

from aioapns import APNs, NotificationRequest
from aioapns.connection import APNsProductionClientProtocol
from measuring import PAYLOAD_TEXT, Work, measured


class Protocol(APNsProductionClientProtocol):
    """The server echoes no apns-id. Its answers come in the order of the requests, so the oldest one is meant."""

    APNS_SERVER = "127.0.0.1"

    def on_response_received(self, headers: dict[bytes, bytes]) -> None:
        super().on_response_received({**headers, b"apns-id": next(iter(self.requests)).encode()})


async def main(work: Work, key: str) -> None:
    logging.getLogger("aioapns").setLevel(logging.ERROR)
    Protocol.APNS_PORT = work.port
    apns = APNs(
        key=key,
        key_id="ABCDE12345",
        team_id="TEAM123456",
        topic="com.example.app",
        max_connections=work.connections,
        ssl_context=ssl.create_default_context(cafile=work.ca_file),
    )

    apns.pool.protocol_class = Protocol

    async def send(number: int) -> None:
        message = {"aps": {"alert": PAYLOAD_TEXT}}
        answer = await apns.send_notification(NotificationRequest(device_token=f"{number:064x}", message=message))
        assert answer.is_successful

    await measured(send, work)


if __name__ == "__main__":
    import uvloop

    given = Work(**json.loads(sys.argv[1]))
    uvloop.run(main(given, Path(given.key_file).read_text()))
