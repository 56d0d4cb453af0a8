"""Send notifications with httpx over HTTP/2, in an environment of its own. Prints figures; see run.py."""

import json
import ssl
import sys

import httpx
from measuring import PAYLOAD_TEXT, Work, measured


async def main(work: Work) -> None:
    limits = httpx.Limits(max_connections=work.connections)
    context = ssl.create_default_context(cafile=work.ca_file)
    headers = {"authorization": f"bearer {'x' * 200}", "apns-topic": "com.example.app", "apns-push-type": "alert"}
    async with httpx.AsyncClient(http2=True, http1=False, verify=context, limits=limits, timeout=60) as client:

        async def send(number: int) -> None:
            url = f"https://127.0.0.1:{work.port}/3/device/{number:064x}"
            answer = await client.post(url, json={"aps": {"alert": PAYLOAD_TEXT}}, headers=headers)
            assert answer.status_code == 200

        await measured(send, work)


if __name__ == "__main__":
    import uvloop

    uvloop.run(main(Work(**json.loads(sys.argv[1]))))
