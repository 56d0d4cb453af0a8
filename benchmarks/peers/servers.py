"""The servers of the peers: on free ports, with their own data, removed at the end."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from installing import RABBITMQ, ROOT, Tools
from processes import Failed, free_port, reachable, start, stop, wait_for

Environment = dict[str, str]


def server(kind: str, folder: Path, tools: Tools) -> AbstractContextManager[Environment]:
    """Start a server of that kind; yield the environment that a peer's processes need to find it."""
    folder.mkdir(parents=True, exist_ok=True)
    if kind == "redis":
        return _redis(folder)
    return _rabbitmq(folder) if kind == "rabbitmq" else _stack(folder, tools)


@contextmanager
def _redis(folder: Path) -> Iterator[Environment]:
    """Start Redis with an append-only file that is written every second."""
    port = free_port()
    options = {"port": str(port), "bind": "127.0.0.1", "dir": str(folder), "appendonly": "yes", "save": ""}
    command = ["redis-server", *(part for name, value in options.items() for part in (f"--{name}", value))]
    process = start([*command, "--appendfsync", "everysec"], os.environ, folder / "server.log")
    try:
        wait_for("Redis", lambda: reachable(port), 20)
        yield {"PEER_URL": f"redis://127.0.0.1:{port}/0"}
    finally:
        stop(process, 10)


@contextmanager
def _rabbitmq(folder: Path) -> Iterator[Environment]:
    """Start RabbitMQ with classic durable queues. The Erlang port mapper is private, too, and ends with it."""
    port, mapper = free_port(), free_port()
    plugins, settings = folder / "plugins", folder / "rabbitmq.conf"
    plugins.write_text("[].\n")
    settings.write_text(f"listeners.tcp.local = 127.0.0.1:{port}\nlog.file.level = error\n")
    own = {
        "HOME": str(folder), "RABBITMQ_NODENAME": f"peers{port}@localhost", "RABBITMQ_CONFIG_FILE": str(settings),
        "RABBITMQ_MNESIA_BASE": str(folder / "data"), "RABBITMQ_LOG_BASE": str(folder / "log"),
        "RABBITMQ_ENABLED_PLUGINS_FILE": str(plugins), "RABBITMQ_DIST_PORT": str(free_port()),
        "RABBITMQ_CONF_ENV_FILE": "/dev/null", "ERL_EPMD_PORT": str(mapper), "ERL_EPMD_ADDRESS": "127.0.0.1",
    }  # fmt: skip
    environment = {**os.environ, **own}
    process = start([str(RABBITMQ)], environment, folder / "server.log")
    try:
        wait_for("RabbitMQ", lambda: reachable(port), 60)
        yield {"PEER_URL": f"amqp://guest:guest@127.0.0.1:{port}/%2F"}
    finally:
        stop(process, 20)
        subprocess.run(["epmd", "-kill"], env=environment, capture_output=True, check=False)


@contextmanager
def _stack(folder: Path, tools: Tools) -> Iterator[Environment]:
    """Start Fairlane's local stack in its own home."""
    environment = {**os.environ, "FAIRLANE_HOME": str(folder / "home"), "PYTHONPATH": str(ROOT)}
    program = [str(tools.fairlane), "-m", "fairlane", "stack"]
    try:
        begun = subprocess.run([*program, "up"], env=environment, capture_output=True, text=True, check=False)
        if begun.returncode:
            raise Failed(f"`fairlane stack up` failed: {begun.stderr[-800:]}")
        yield {"FAIRLANE_HOME": str(folder / "home")}
    finally:
        subprocess.run([*program, "down", "--wipe"], env=environment, capture_output=True, check=False)
