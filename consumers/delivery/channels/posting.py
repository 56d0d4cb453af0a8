"""The clients of the `http` channel: aiohttp, and pycurl where it is installed, which takes less CPU."""

import ssl
from abc import ABC, abstractmethod
from collections.abc import Mapping
from importlib.util import find_spec

import aiohttp
from yarl import URL

from consumers.delivery.channels.http_answer import (
    ANSWER_LIMIT,
    REASON_LIMIT,
    HttpAnswer,
    read_answer,
    unanswered,
    unsent,
)
from consumers.delivery.http2.port import Fate, Headers, HttpRequest, HttpResponse, RequestFailed
from consumers.delivery.http2.settings import ClientSettings
from consumers.delivery.settings import ClientName
from dispatcher.model.errors import InvalidInput
from dispatcher.model.shown import beginning
from dispatcher.verdicts import error_text
from dispatcher.wire.outcome import Report

CONNECTING = 0.5
"""Part of a POST's time limit in which the connection must be there. If both ended at once, a POST that was never sent
could not be told from one without an answer."""


class NoAnswer(Exception):
    """A POST has no answer. `report`: what that says about its targets."""

    def __init__(self, report: Report) -> None:
        super().__init__(report.verdict.reason)
        self.report = report


class Posting(ABC):
    """Posts to one address."""

    @abstractmethod
    async def post(self, body: bytes, headers: Mapping[str, str]) -> HttpAnswer:
        """Post a body once. `headers`: those of this POST alone. Raises NoAnswer."""

    @abstractmethod
    async def close(self) -> None:
        """End all connections."""


def make_posting(client: ClientName, url: str, headers: Mapping[str, str], timeout_s: float, limit: int) -> Posting:
    """Return a client. `headers`: those of each POST. `limit`: maximum connections. Raises Missing without pycurl if
    that is asked for."""
    is_there = all(find_spec(name) is not None for name in ("pycurl", "certifi"))
    make = CurlPosting if client == "pycurl" or (client == "auto" and is_there) else AiohttpPosting
    return make(url, headers, timeout_s, limit)


class AiohttpPosting(Posting):
    """Posts with aiohttp."""

    def __init__(self, url: str, headers: Mapping[str, str], timeout_s: float, limit: int) -> None:
        self._url = url
        self._timeout_s, self._connect_s = timeout_s, CONNECTING * timeout_s
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=limit, limit_per_host=0),
            timeout=aiohttp.ClientTimeout(total=timeout_s, connect=self._connect_s),
            headers=dict(headers),
            cookie_jar=aiohttp.DummyCookieJar(),
        )

    async def post(self, body: bytes, headers: Mapping[str, str]) -> HttpAnswer:
        try:
            async with self._session.post(self._url, data=body, headers=headers, allow_redirects=False) as answer:
                return await read_answer(answer, ANSWER_LIMIT)
        except aiohttp.ConnectionTimeoutError as error:
            raise NoAnswer(unsent(f"no connection within {self._connect_s:g} s")) from error
        except TimeoutError as error:
            raise NoAnswer(unanswered(f"no answer within {self._timeout_s:g} s")) from error
        except aiohttp.ClientConnectorError as error:
            raise NoAnswer(unsent(error_text(error)[:REASON_LIMIT])) from error
        except (aiohttp.ClientError, OSError) as error:
            raise NoAnswer(unanswered(error_text(error)[:REASON_LIMIT])) from error

    async def close(self) -> None:
        await self._session.close()


class CurlPosting(Posting):
    """Posts with pycurl."""

    def __init__(self, url: str, headers: Mapping[str, str], timeout_s: float, limit: int) -> None:
        """Raises Missing without fairlane[push]."""
        from consumers.delivery.http2.curl_client import CurlClient

        authorities = ssl.get_default_verify_paths()  # those that aiohttp accepts
        self._url = str(URL(url))  # in ASCII
        self._headers: Headers = tuple(headers.items())
        self._timeout_s, self._connect_s = timeout_s, CONNECTING * timeout_s
        self._client: CurlClient = CurlClient(
            ClientSettings(
                http2=False,
                ca_file=authorities.cafile,
                ca_folder=authorities.capath,
                connections=limit,
                timeout_s=timeout_s,
                connect_timeout_s=self._connect_s,
                kept_bytes=ANSWER_LIMIT,
            )
        )

    async def post(self, body: bytes, headers: Mapping[str, str]) -> HttpAnswer:
        request = HttpRequest(url=self._url, body=body, headers=self._headers, own_headers=tuple(headers.items()))
        try:
            return _answer(await self._client.send(request))
        except InvalidInput as error:
            raise NoAnswer(unsent(beginning(str(error), REASON_LIMIT))) from error
        except RequestFailed as failure:
            if failure.part is not None:
                return _answer(failure.part)._replace(is_complete=False)
            is_unsent = failure.fate is Fate.NOT_TAKEN
            late = f"connection within {self._connect_s:g} s" if is_unsent else f"answer within {self._timeout_s:g} s"
            reason = f"no {late}" if failure.timed_out else failure.reason
            raise NoAnswer((unsent if is_unsent else unanswered)(beginning(reason, REASON_LIMIT))) from failure

    async def close(self) -> None:
        await self._client.close()


def _answer(response: HttpResponse) -> HttpAnswer:
    if response.status < 300:
        return HttpAnswer(response.status, {}, response.body)
    headers = {name: value for name in ("Retry-After", "Date") if (value := response.header(name)) is not None}
    return HttpAnswer(response.status, headers, response.body)
