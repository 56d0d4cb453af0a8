"""The client that uses pycurl: libcurl and nghttp2, driven by asyncio's event loop."""

import asyncio
from functools import partial
from typing import TYPE_CHECKING

from backends.extras import require_packages
from consumers.delivery.http2.port import Fate, HttpRequest, HttpResponse, RequestFailed
from consumers.delivery.http2.settings import ClientSettings, check

if TYPE_CHECKING:
    from consumers.delivery.http2.curl_multi import CurlMulti
    from consumers.delivery.http2.curl_transfer import Transfer


class CurlClient:
    """An HttpClient with connections of its own, on the event loop of its first request."""

    def __init__(self, settings: ClientSettings) -> None:
        """Raises InvalidInput, and Missing without fairlane[push]."""
        require_packages("push", "pycurl", "certifi")
        import certifi

        from consumers.delivery.http2 import curl_multi, curl_transfer

        check(settings)
        self._curl, self._new_multi = curl_transfer, partial(curl_multi.CurlMulti, settings)
        self._settings = settings
        self._ca_file = settings.ca_file or certifi.where()
        self._multi = self._new_multi()
        self._idle: list[Transfer] = []
        self._retired: set[asyncio.Task[None]] = set()
        self._closed = False

    async def send(self, request: HttpRequest) -> HttpResponse:
        """See HttpClient.send."""
        if self._closed:
            raise RequestFailed(Fate.NOT_TAKEN, "the client is closed")
        transfer = self._idle.pop() if self._idle else self._curl.Transfer(self._settings, self._ca_file)
        transfer.prepare(request)
        multi = self._multi
        try:
            await multi.start(transfer.curl)
        except self._curl.CurlError as error:
            outcome = transfer.outcome(error)
            self._idle.append(transfer)
            if self._settings.http2 and self._curl.is_broken(error) and multi is self._multi and not self._closed:
                self.renew_connections()  # libcurl would give further requests to the broken one
            if isinstance(outcome, RequestFailed):
                raise outcome from error
            return outcome
        except asyncio.CancelledError as error:
            multi.drop(transfer.curl)
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            raise RequestFailed(transfer.fate(), "the client was closed") from error
        self._idle.append(transfer)
        if not transfer.has_headers:
            raise RequestFailed(Fate.UNKNOWN, "the answer ended within its headers")
        return transfer.response()

    def renew_connections(self) -> None:
        """Use new connections from now on. The old ones end with the requests that are on them."""
        old, self._multi = self._multi, self._new_multi()
        task = asyncio.get_running_loop().create_task(_end(old))
        self._retired.add(task)
        task.add_done_callback(self._retired.discard)

    async def close(self) -> None:
        """End all connections. Requests on them fail; what became of them says RequestFailed."""
        self._closed = True
        self._multi.close()
        for task in list(self._retired):
            task.cancel()
        await asyncio.gather(*self._retired, return_exceptions=True)
        self._idle.clear()


async def _end(multi: "CurlMulti") -> None:
    """Close it when the transfers on it have ended."""
    try:
        if multi.futures:
            await asyncio.wait(multi.futures)
    finally:
        multi.close()
