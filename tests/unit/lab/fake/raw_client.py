"""A client that can write any bytes."""

import asyncio
import ssl

from h2.config import H2Configuration
from h2.connection import H2Connection

from tests.unit.lab.fake.playing import Playing

HEAD = [(":method", "GET"), (":path", "/_fake/counts"), (":scheme", "https"), (":authority", "x")]


class Raw:
    """A client that writes any bytes, with h2 for what the server writes."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer
        self.h2 = H2Connection(H2Configuration(header_encoding="utf-8"))
        self.h2.initiate_connection()

    async def events(self, *kinds: type) -> list[object]:
        """Return the events until one of these; also at the end of the connection."""
        found: list[object] = []
        while not any(isinstance(one, kinds) for one in found):
            data = await self.reader.read(65_536)
            if not data:
                break
            found += self.h2.receive_data(data)
            self.writer.write(self.h2.data_to_send())
        return found


async def connected(playing: Playing) -> Raw:
    context = ssl.create_default_context(cafile=str(playing.folder / "ca.pem"))
    context.set_alpn_protocols(["h2"])
    host, port = playing.url.removeprefix("https://").split(":")
    return Raw(*await asyncio.open_connection(host, int(port), ssl=context))
