"""Spark's own master and workers on this machine, each in a process: a cluster whose executors can be killed."""

import os
import signal
import socket
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import urllib3

from benchmarks.ingest import processes
from benchmarks.stage import wait_for

WORKERS = 2
START_S = 300.0
_DEPLOY = "org.apache.spark.deploy"
_EXECUTOR = "executor.CoarseGrainedExecutorBackend"
_HERE = "127.0.0.1"


@dataclass(frozen=True)
class SparkCluster:
    """A running cluster."""

    url: str
    """Address of the master."""
    workers: tuple[int, ...]
    """Process ids."""

    def executors(self) -> set[int]:
        """Return the process ids of the running executors."""
        return {pid for pid, command in processes() if _EXECUTOR in command and parent_of(pid) in self.workers}


def parent_of(pid: int) -> int:
    """Return the id of the parent process; 0 if the process no longer exists."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0


def spark_home() -> Path:
    """Return the folder of the pyspark package, which contains all of Spark."""
    spec = find_spec("pyspark")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent


@contextmanager
def spark_cluster(folder: Path, memory: str = "1g") -> Iterator[SparkCluster]:
    """Run two workers with one core and this much memory each.

    `folder`: for their logs and files.
    """
    folder.mkdir(parents=True, exist_ok=True)
    url, ui = f"spark://{_HERE}:{_free_port()}", _free_port()
    with ExitStack() as running:
        options = ["--host", _HERE, "--port", url.rpartition(":")[2], "--webui-port", str(ui)]
        running.enter_context(_daemon(folder, "master", [f"{_DEPLOY}.master.Master", *options]))
        wait_for("Spark's master", lambda: _workers(ui) == 0, START_S)
        workers = []
        for number in range(WORKERS):
            size = ["--cores", "1", "--memory", memory, "-d", str(folder / f"worker-{number}")]
            options = ["--host", _HERE, "--webui-port", "0", *size]
            command = [f"{_DEPLOY}.worker.Worker", *options, url]
            workers.append(running.enter_context(_daemon(folder, f"worker-{number}", command)))
        wait_for("Spark's workers", lambda: _workers(ui) == WORKERS, START_S)
        yield SparkCluster(url, tuple(workers))


@contextmanager
def _daemon(folder: Path, name: str, command: Sequence[str]) -> Iterator[int]:
    """Start a process that has not this checkout on its path; yield its id. At the end all its children are killed."""
    work = folder / f"{name}-started-in"
    work.mkdir()
    given = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    own = {
        "SPARK_HOME": str(spark_home()),
        "SPARK_LOCAL_DIRS": str(folder / "local"),
        "SPARK_LOCAL_IP": _HERE,
        "SPARK_DAEMON_MEMORY": "256m",
    }
    with (folder / f"{name}.log").open("ab") as log:
        process = subprocess.Popen(
            [str(spark_home() / "bin" / "spark-class"), *command],
            env=given | own,
            cwd=work,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        yield process.pid
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _workers(ui: int) -> int:
    """Return the number of workers that the master knows; -1 if it does not answer."""
    try:
        state = urllib3.request("GET", f"http://{_HERE}:{ui}/json/", timeout=5.0, retries=False).json()
    except (urllib3.exceptions.HTTPError, ValueError):
        return -1
    return int(state["aliveworkers"])


def _free_port() -> int:
    with socket.socket() as held:
        held.bind((_HERE, 0))
        port: int = held.getsockname()[1]
        return port
