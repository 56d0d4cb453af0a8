"""A client whose first request on a connection goes alone, for servers that allow one stream at first, as APNs does."""

import asyncio

from consumers.delivery.http2.port import Fate, HttpClient, HttpRequest, HttpResponse, RequestFailed


class FirstAlone:
    """An HttpClient that waits for one answer before it sends more, at the start and after each failure.

    libcurl opens up to 100 streams on a new connection before it has heard of the server's limit. The server refuses
    those beyond it, and libcurl then gives the connection up: with a limit of one stream, every connection would carry
    one request. `client` should have one connection, as this cannot see when a further one is opened.
    """

    def __init__(self, client: HttpClient) -> None:
        self._client = client
        self._first: asyncio.Future[RequestFailed | None] | None = None
        self._answered = False

    async def send(self, request: HttpRequest) -> HttpResponse:
        """See HttpClient.send. While the first request is under way, others wait, and are not taken if it fails."""
        while not self._answered:
            if self._first is None:
                return await self._send_first(request)
            failure = await asyncio.shield(self._first)
            if failure is not None:
                reason = f"the first request of the connection failed: {failure}"
                raise RequestFailed(Fate.NOT_TAKEN, reason, refused=failure.refused)
        try:
            return await self._client.send(request)
        except RequestFailed:
            self._answered = False
            raise

    def begin_again(self) -> None:
        """Send the next request alone: the client uses a new connection."""
        self._answered = False

    async def _send_first(self, request: HttpRequest) -> HttpResponse:
        first = self._first = asyncio.get_running_loop().create_future()
        failure: RequestFailed | None = None
        try:
            answer = await self._client.send(request)
            self._answered = True
            return answer
        except RequestFailed as error:
            failure = error
            raise
        finally:  # a cancelled call leaves it to the next one
            self._first = None
            first.set_result(failure)
