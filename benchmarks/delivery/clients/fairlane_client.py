"""Send notifications with Fairlane's own client, in its own environment. Prints figures; see run.py."""

import json
import sys

from measuring import PAYLOAD_TEXT, Work, measured

from consumers.delivery.http2.curl_client import CurlClient
from consumers.delivery.http2.port import HttpRequest
from consumers.delivery.http2.settings import ClientSettings
from dispatcher.channels.apns import apns_id

HEADERS = (("authorization", f"bearer {'x' * 200}"), ("apns-topic", "com.example.app"), ("apns-push-type", "alert"))


async def main(work: Work) -> None:
    streams = work.in_flight // work.connections
    client = CurlClient(ClientSettings(ca_file=work.ca_file, connections=work.connections, streams=streams))
    head, tail = b'{"aps":{"alert":"', PAYLOAD_TEXT.encode() + b'"}}'

    async def send(number: int) -> None:
        url = f"https://127.0.0.1:{work.port}/3/device/{number:064x}"
        own = (("apns-id", apns_id("task", "0", number, 0)),)
        answer = await client.send(HttpRequest(url=url, body=head + tail, headers=HEADERS, own_headers=own))
        assert answer.status == 200

    await measured(send, work)
    await client.close()


if __name__ == "__main__":
    import uvloop

    uvloop.run(main(Work(**json.loads(sys.argv[1]))))
