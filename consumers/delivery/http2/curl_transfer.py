"""One request at a time on one of libcurl's easy handles. Needs pycurl, an extra."""

import io
import os

import pycurl

from consumers.delivery.http2.port import Fate, Headers, HttpRequest, HttpResponse, RequestFailed
from consumers.delivery.http2.settings import ClientSettings
from dispatcher.model.errors import InvalidInput

CurlError: type[Exception] = pycurl.error
_TIMED_OUT, _NO_MORE = 28, 23
"""Errors after the time limit, and after `_keep` has asked for an end."""
_BROKEN_OFF = (18, 55, 56, 61)
"""Errors of a connection that ended or of a body that cannot be read, after which there may be a part of an answer."""
_BROKEN = (55, 56)
"""Errors of a connection that is of no more use to any request."""
_REFUSED = 65
"""The error after a REFUSED_STREAM, or a GOAWAY whose last stream is below the request's: libcurl wants to send the
request again, and cannot.

It also does so when a reused connection ends, and after HTTP_1_1_REQUIRED, unless `_NO_REPEATS` is set. That holds for
HTTP/2 only, and is libcurl's habit, not its promise.
"""
_NO_REPEATS = (pycurl.OPT_RTSP_REQUEST, pycurl.RTSPREQ_RECEIVE)
"""An option of RTSP that libcurl also looks at before it repeats a request of HTTP: then only a refusal is a reason."""
_REFUSED_IN = "8.23."
"""The libcurl that tests/unit/dispatch/consumers/http2 has shown to do so. With another, such a request is UNKNOWN."""
_UNWANTED = ("Content-Type", "Expect", "Accept", "User-Agent")
"""Headers that libcurl and pycurl add unless told not to. With Expect, a request is sent again after a 417."""


class Transfer:
    """A handle, used for one request after the other, each sent at most once.

    libcurl sends a POST again by itself when a reused connection dies before the first byte of the answer, also if the
    server has taken it, unless `_NO_REPEATS` is set. It needs the body a second time for that. The body therefore comes
    from a function that cannot be rewound: libcurl gives up instead, with error 65. A request whose body was never
    asked for is incomplete wherever it went, so no server can have acted on it.
    """

    def __init__(self, settings: ClientSettings, ca_file: str) -> None:
        self.curl = pycurl.Curl()
        self._body = io.BytesIO()
        self._lines: list[bytes] = []
        self._parts: list[bytes] = []
        self._kept = 0
        self._max_kept = settings.kept_bytes
        self._tells_refusals = settings.http2 and refusals_are_shown()
        self._ends_early = not settings.http2
        """Whether the rest of an answer that is too long is not read. Over HTTP/2 that would end other requests."""
        self._url: str | None = None
        self._headers: Headers | None = None
        self._header_lines: list[bytes] = []
        self._has_own = False
        self._set_connection(settings, ca_file)
        self._set_request()

    def prepare(self, request: HttpRequest) -> None:
        """Set the handle up for a request. Raises InvalidInput."""
        if not request.body:
            raise InvalidInput("A request has no body.", "Give it one.")
        curl = self.curl
        if request.url != self._url:
            curl.setopt(pycurl.URL, request.url.encode())  # pycurl takes texts in ASCII only
            self._url = request.url
        if request.headers is not self._headers or request.own_headers or self._has_own:
            self._set_headers(request)
        curl.setopt(pycurl.POSTFIELDSIZE, len(request.body))
        self._body = io.BytesIO(request.body)
        curl.setopt(pycurl.READFUNCTION, self._body.read)
        self._lines.clear()
        self._parts.clear()
        self._kept = 0

    def response(self) -> HttpResponse:
        """Return the answer to the request that was made."""
        return HttpResponse(
            status=self.curl.getinfo(pycurl.RESPONSE_CODE), body=b"".join(self._parts), lines=tuple(self._lines)
        )

    def outcome(self, error: Exception) -> HttpResponse | RequestFailed:
        """Return what an error of pycurl says about the request that was made."""
        code, text = error.args
        if code == _NO_MORE and self._kept >= self._max_kept:
            return self.response()
        part = self.response() if code in _BROKEN_OFF and self.has_headers else None
        refused = code == _REFUSED and self._tells_refusals
        fate = Fate.NOT_TAKEN if refused else self.fate()
        reason = "the server refused the stream" if refused else text or "the connection ended"
        return RequestFailed(
            fate, f"{reason} (libcurl error {code})", refused=refused, timed_out=code == _TIMED_OUT, part=part
        )

    def fate(self) -> Fate:
        """Return what is known about a request that ended early for a reason of ours."""
        return Fate.NOT_TAKEN if self._body.tell() == 0 else Fate.UNKNOWN

    @property
    def has_headers(self) -> bool:
        """Whether the headers of the final answer are complete. If a server closes the connection within them, libcurl
        reports an answer without a body."""
        for line in reversed(self._lines):
            if line.startswith(b"HTTP/"):
                break
            if not line.rstrip(b"\r\n"):
                return int(self.curl.getinfo(pycurl.RESPONSE_CODE)) >= 200
        return False

    # ------------------------------------------------------------- setting up
    def _set_headers(self, request: HttpRequest) -> None:
        if request.headers is not self._headers:
            self._headers, self._header_lines = request.headers, [*_lines(request.headers), *_unwanted(request.headers)]
        self._has_own = bool(request.own_headers)
        self.curl.setopt(pycurl.HTTPHEADER, [*_lines(request.own_headers), *self._header_lines])

    def _set_connection(self, settings: ClientSettings, ca_file: str) -> None:
        set_option = self.curl.setopt
        set_option(pycurl.NOSIGNAL, 1)
        if settings.http2:
            set_option(pycurl.PROTOCOLS, pycurl.PROTO_HTTPS)
            set_option(pycurl.HTTP_VERSION, pycurl.CURL_HTTP_VERSION_2_PRIOR_KNOWLEDGE)  # never HTTP/1.1
            set_option(pycurl.PIPEWAIT, 1)  # a further stream rather than a further connection
        else:
            set_option(pycurl.PROTOCOLS, pycurl.PROTO_HTTPS | pycurl.PROTO_HTTP)
            set_option(pycurl.HTTP_VERSION, pycurl.CURL_HTTP_VERSION_1_1)
            set_option(pycurl.ENCODING, "gzip, deflate")
        set_option(pycurl.SSLVERSION, pycurl.SSLVERSION_TLSv1_2)
        set_option(pycurl.CAINFO, os.fsencode(ca_file))
        set_option(pycurl.PROXY_CAINFO, os.fsencode(ca_file))
        if settings.ca_folder is not None:
            set_option(pycurl.CAPATH, os.fsencode(settings.ca_folder))
        if settings.certificate is not None:
            set_option(pycurl.SSLCERT_BLOB, settings.certificate.pem)
            set_option(pycurl.SSLKEY_BLOB, settings.certificate.pem)
        set_option(pycurl.PROXY, (settings.proxy or "").encode())  # empty: the environment's proxies are not looked at
        set_option(pycurl.NOPROXY, "")
        set_option(pycurl.CONNECTTIMEOUT_MS, round(settings.connect_timeout_s * 1_000))
        set_option(pycurl.TIMEOUT_MS, round(settings.timeout_s * 1_000))

    def _set_request(self) -> None:
        set_option = self.curl.setopt
        set_option(pycurl.POST, 1)
        if self._tells_refusals:
            set_option(*_NO_REPEATS)
        set_option(pycurl.UPLOAD_BUFFERSIZE, 16_384)  # each request has its own, 64 KiB if not set
        set_option(pycurl.HEADERFUNCTION, self._lines.append)
        set_option(pycurl.WRITEFUNCTION, self._keep)

    def _keep(self, data: bytes) -> int | None:
        room = self._max_kept - self._kept
        if room > 0:
            self._parts.append(data[:room])
            self._kept += min(room, len(data))
        return 0 if self._ends_early and len(data) >= room else None


def _lines(headers: Headers) -> list[bytes]:
    lines = [f"{name}: {value}" if value else f"{name};" for name, value in headers]
    for line in lines:
        if not line.isprintable():
            raise InvalidInput("A header of a request holds a control character.", "Remove it.")
    return [line.encode() for line in lines]


def _unwanted(headers: Headers) -> list[bytes]:
    given = {name.lower() for name, _ in headers}
    return [f"{name}:".encode() for name in _UNWANTED if name.lower() not in given]


def is_broken(error: Exception) -> bool:
    """Return whether an error of pycurl says that the connection broke."""
    return error.args[0] in _BROKEN


def refusals_are_shown() -> bool:
    """Return whether a refused request can be told from one whose connection broke."""
    version, protocols = pycurl.version_info()[1], pycurl.version_info()[8]
    return str(version).startswith(_REFUSED_IN) and "rtsp" in protocols
