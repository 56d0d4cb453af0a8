"""An S3 service for tests: moto's, with faults on demand, in a process of its own.

    python -m tests.s3_server PORT

moto looks whether a key exists and stores it in two steps, so a lock makes a conditional put one step, as S3 promises.
"""

import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.error import URLError

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs
from pyarrow.csv import write_csv

from backends.settings import StorageSettings

KEY = "tests-key"
_FAULTS = "/-faults/"
_ERROR = "<Error><Code>{}</Code><Message>{}</Message></Error>"


def storage_at(url: str, access_key: str = KEY) -> StorageSettings:
    """Return the settings for a server at this address."""
    keys = {"access_key": access_key, "secret_key": "x" * 20}
    return StorageSettings.model_validate({"endpoint": url, "region": "us-east-1", **keys})


def connector() -> str:
    """Return Spark's package for S3, of the version of its Hadoop."""
    import pyspark

    [client] = (Path(pyspark.__file__).parent / "jars").glob("hadoop-client-api-*.jar")
    return f"org.apache.hadoop:hadoop-aws:{client.stem.rpartition('-')[2]}"


class S3Server:
    """A running server."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self.storage = storage_at(self.url)

    @property
    def files(self) -> fs.S3FileSystem:
        keys = {"access_key": KEY, "secret_key": "x" * 20, "endpoint_override": self.url}
        return fs.S3FileSystem(**keys, allow_bucket_creation=True, allow_bucket_deletion=True)

    @property
    def variables(self) -> dict[str, str]:
        """The settings of its storage, for a process of its own."""
        return {f"FAIRLANE_STORAGE_{name.upper()}": value for name, value in self.storage.plain().items()}

    def make_bucket(self, name: str) -> None:
        self.files.create_dir(name)

    def put(self, path: str, table: pa.Table) -> None:
        """Store a table as Parquet, or as CSV if the path ends like one."""
        with self.files.open_output_stream(path) as file:
            write_csv(table, file) if path.endswith(".csv") else pq.write_table(table, file)

    def fail(self, *, busy: int = 0, lost: int = 0) -> None:
        """Answer 503 to the next `busy` requests, and to the next `lost` conditional puts although they are stored."""
        urllib.request.urlopen(f"{self.url}{_FAULTS}{busy}/{lost}").read()


class _Faulty:
    def __init__(self, app: Callable[..., Iterable[bytes]]) -> None:
        self._app, self._busy, self._lost, self._lock = app, 0, 0, threading.Lock()

    def __call__(self, env: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        path = env["PATH_INFO"]
        if path.startswith(_FAULTS):
            self._busy, self._lost = map(int, path.removeprefix(_FAULTS).split("/"))
            return _answer(start, "200 OK", "")
        if KEY not in env.get("HTTP_AUTHORIZATION", ""):
            return self._refuse(env, start, "403 Forbidden", "InvalidAccessKeyId", "The access key does not exist.")
        if self._busy > 0:
            self._busy -= 1
            return self._refuse(env, start, "503 Slow Down", "SlowDown", "Please reduce your request rate.")
        if env["REQUEST_METHOD"] != "PUT":
            return self._app(env, start)
        with self._lock:
            if self._lost > 0 and env.get("HTTP_IF_NONE_MATCH"):
                self._lost -= 1
                list(self._app(env, lambda *_: None))
                return _answer(start, "503 Slow Down", _ERROR.format("SlowDown", "Please reduce your request rate."))
            return list(self._app(env, start))

    def _refuse(self, env: dict[str, Any], start: Callable[..., Any], status: str, *error: str) -> list[bytes]:
        env["wsgi.input"].read(int(env.get("CONTENT_LENGTH") or 0))
        return _answer(start, status, _ERROR.format(*error))


def _answer(start: Callable[..., Any], status: str, body: str) -> list[bytes]:
    start(status, [("Content-Type", "application/xml"), ("Content-Length", str(len(body)))])
    return [body.encode()]


@contextmanager
def s3_server() -> Iterator[S3Server]:
    """Run a server in a process of its own."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    process = subprocess.Popen(
        [sys.executable, "-m", __name__, str(port)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    server = S3Server(port)
    try:
        deadline_s = time.monotonic() + 60
        while True:
            try:
                server.fail()
                break
            except URLError:
                assert process.poll() is None, "the server ended"
                assert time.monotonic() < deadline_s, "the server does not answer"
                time.sleep(0.1)
        yield server
    finally:
        process.kill()
        process.wait()


def _serve(port: int) -> None:
    from moto.moto_server.werkzeug_app import DomainDispatcherApplication, MotoRequestHandler, create_backend_app
    from werkzeug.serving import run_simple

    app = _Faulty(DomainDispatcherApplication(create_backend_app))
    run_simple("127.0.0.1", port, app, threaded=True, request_handler=MotoRequestHandler)


if __name__ == "__main__":
    _serve(int(sys.argv[1]))
