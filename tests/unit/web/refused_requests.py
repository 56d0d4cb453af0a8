"""Requests that two servers in a row could read in two ways. Each is answered with 400, and the connection closed."""

_POST = b"POST /v1/tasks HTTP/1.1\r\nHost: localhost\r\n"
_GET = b"GET /livez HTTP/1.1\r\nHost: localhost\r\n"
_CHUNKED = _POST + b"Transfer-Encoding: chunked\r\n\r\n"

REFUSED: dict[str, bytes] = {
    # two ways to say where the body ends
    "length then coding": _POST + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "coding then length": _POST + b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
    "two lengths": _POST + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}1",
    "the same length twice": _POST + b"Content-Length: 2\r\nContent-Length: 2\r\n\r\n{}",
    "list of lengths": _POST + b"Content-Length: 2, 2\r\n\r\n{}",
    "length with a plus": _POST + b"Content-Length: +2\r\n\r\n{}",
    "negative length": _POST + b"Content-Length: -2\r\n\r\n{}",
    "hexadecimal length": _POST + b"Content-Length: 0x2\r\n\r\n{}",
    "length with an underscore": _POST + b"Content-Length: 0_2\r\n\r\n{}",
    "empty length": _POST + b"Content-Length: \r\n\r\n{}",
    "length beyond 64 bits": _POST + b"Content-Length: 99999999999999999999999\r\n\r\n{}",
    # codings
    "identity": _POST + b"Transfer-Encoding: identity\r\n\r\n{}",
    "unknown coding": _POST + b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
    "chunked before gzip": _POST + b"Transfer-Encoding: chunked, gzip\r\n\r\n0\r\n\r\n",
    "gzip before chunked": _POST + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    "two codings": _POST + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n",
    "coding after a vertical tab": _POST + b"Transfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n",
    "quoted coding": _POST + b'Transfer-Encoding: "chunked"\r\n\r\n0\r\n\r\n',
    "empty coding": _POST + b"Transfer-Encoding: \r\n\r\n",
    "chunked in HTTP/1.0": b"POST /v1/tasks HTTP/1.0\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    # ends of lines, folded lines, names
    "bare line feeds": b"GET /livez HTTP/1.1\nHost: localhost\n\n",
    "bare line feed in headers": b"GET /livez HTTP/1.1\r\nHost: localhost\nX: 1\r\n\r\n",
    "bare line feed at the end": b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\n",
    "bare carriage return": b"GET /livez HTTP/1.1\r\nHost: localhost\rX: 1\r\n\r\n",
    "folded header": _GET + b"X: 1\r\n 2\r\n\r\n",
    "folded header with a tab": _GET + b"X: 1\r\n\t2\r\n\r\n",
    "folded coding": _POST + b"Transfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n",
    "space before the first header": b"GET /livez HTTP/1.1\r\n Host: localhost\r\n\r\n",
    "space before a colon": _POST + b"Content-Length : 2\r\n\r\n{}",
    "header without a colon": _GET + b"X\r\n\r\n",
    "header without a name": _GET + b": 1\r\n\r\n",
    "NUL in a value": _GET + b"X: a\x00b\r\n\r\n",
    "control character in a value": _GET + b"X: a\x01b\r\n\r\n",
    "value that is no UTF-8": _GET + b"X: a\xffb\r\n\r\n",
    # hosts, versions, methods
    "no host": b"GET /livez HTTP/1.1\r\n\r\n",
    "two hosts": _GET + b"Host: other\r\n\r\n",
    "two keys": _GET + b"Authorization: Bearer a\r\nAuthorization: Bearer b\r\n\r\n",
    "HTTP/2.0": b"GET /livez HTTP/2.0\r\nHost: localhost\r\n\r\n",
    "HTTP/0.9": b"GET /livez\r\n\r\n",
    "space in a path": b"GET /li vez HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "space before the method": b" GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "unknown method": b"FOO /livez HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "CONNECT": b"CONNECT localhost:80 HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "TLS to a port without": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    # chunks
    "chunk extension": _CHUNKED + b"2;a=b\r\n{}\r\n0\r\n\r\n",
    "extension of the last chunk": _CHUNKED + b"2\r\n{}\r\n0;a=b\r\n\r\n",
    "line feed in a chunk extension": _CHUNKED + b"2;a\n{}\r\n0\r\n\r\n",
    "space after a chunk's size": _CHUNKED + b"2 \r\n{}\r\n0\r\n\r\n",
    "prefixed chunk size": _CHUNKED + b"0x2\r\n{}\r\n0\r\n\r\n",
    "chunk size without end": _CHUNKED + b"0" * 30 + b"2\r\n{}\r\n0\r\n\r\n",
    "chunk size beyond 64 bits": _CHUNKED + b"fffffffffffffffff\r\n{}\r\n0\r\n\r\n",
    "chunk longer than its size": _CHUNKED + b"2\r\n{}x\r\n0\r\n\r\n",
    "bare line feed after a chunk": _CHUNKED + b"2\r\n{}\n0\r\n\r\n",
    "length in a trailer": _CHUNKED + b"2\r\n{}\r\n0\r\nContent-Length: 1\r\n\r\n",
    # sizes
    "65 headers": _GET + b"".join(b"X-%d: 1\r\n" % number for number in range(64)) + b"\r\n",
    "long header": _GET + b"X: " + b"a" * 9_000 + b"\r\n\r\n",
    "long headers": _GET + b"".join(b"X-%d: %s\r\n" % (number, b"a" * 8_000) for number in range(5)) + b"\r\n",
    "long request line": b"GET /" + b"a" * 9_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
}
"""By what is wrong with it."""
