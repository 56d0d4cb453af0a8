"""Fairlane's HTTP/2 client beside others on one server, which answers at once, with a core each. Prints all figures.

python benchmarks/delivery/clients/run.py                     everything, some minutes
python benchmarks/delivery/clients/run.py --only pushy --runs 3

The clients are installed into the user's cache directory: from PyPI, the Go module proxy and Maven's repository.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory

from measuring import Work

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
FAIRLANE = ROOT / ".venv" / "bin" / "python"
CLIENTS = ("fairlane", "aioapns", "httpx", "apns2", "pushy")
REQUESTS = {"fairlane": 100_000, "aioapns": 10_000, "httpx": 3_000, "apns2": 100_000, "pushy": 200_000}
IN_FLIGHT = 200
Figures = dict[str, float]


def cache() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "fairlane" / "delivery-clients"


def installed(client: str) -> Callable[[Work], list[str]] | None:
    """Install what a client needs; return how it is run. None without its language's tools."""
    folder = cache()
    folder.mkdir(parents=True, exist_ok=True)
    if client in ("aioapns", "httpx"):
        return in_python(client, folder / "venv")
    if client == "apns2":
        return in_go(folder) if shutil.which("go") else None
    if client == "pushy":
        return in_java(folder / "java") if shutil.which("mvn") else None
    return lambda work: [str(FAIRLANE), str(HERE / "fairlane_client.py"), json.dumps(asdict(work))]


def in_python(client: str, venv: Path) -> Callable[[Work], list[str]]:
    python = venv / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(venv)], check=True)
    subprocess.run([str(python), "-m", "pip", "install", "-q", "-r", str(HERE / "requirements.txt")], check=True)
    return lambda work: [str(python), str(HERE / f"{client}_client.py"), json.dumps(asdict(work))]


def in_go(folder: Path) -> Callable[[Work], list[str]]:
    subprocess.run(["go", "build", "-o", str(folder / "apns2"), "."], cwd=HERE / "go", check=True)
    return lambda work: [str(folder / "apns2"), json.dumps(asdict(work))]


def in_java(folder: Path) -> Callable[[Work], list[str]]:
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(HERE / "java", folder)
    paths = folder / "paths"
    command = ["mvn", "-q", "-B", "package", "dependency:build-classpath", f"-Dmdep.outputFile={paths}"]
    subprocess.run(command, cwd=folder, check=True)
    classes = f"{folder / 'target' / 'classes'}:{paths.read_text()}"

    def command_of(work: Work) -> list[str]:
        given = (work.port, work.ca_file, work.key_file, work.requests, work.in_flight)
        return ["java", "-Xmx512m", "-cp", classes, "PushyClient", *map(str, given)]

    return command_of


def measure(command_of: Callable[[Work], list[str]], requests: int, connections: int) -> Figures:
    """Run a client once on core 0 against a server of its own on core 1."""
    with TemporaryDirectory(prefix="fairlane-clients-") as folder:
        make_files(Path(folder))
        orders = {"folder": folder, "latency_ms": 0, "streams": IN_FLIGHT, "has_body": False}
        command = [str(FAIRLANE), "-m", "benchmarks.delivery.frame_server", json.dumps(orders)]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        with subprocess.Popen(command, cwd=ROOT, text=True, **pipes) as server:  # type: ignore[call-overload]
            work = Work(
                port=int(server.stdout.readline()),
                ca_file=f"{folder}/ca.pem",
                key_file=f"{folder}/key.p8",
                requests=requests,
                in_flight=IN_FLIGHT,
                connections=connections,
            )
            try:
                return run(command_of(work))
            finally:
                server.stdin.close()
                server.stdout.read()


def run(command: list[str]) -> Figures:
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{HERE}", "GOMAXPROCS": "1"}
    pinned = ["taskset", "-c", "0", *command] if shutil.which("taskset") else command
    ended = subprocess.run(pinned, env=environment, stdout=subprocess.PIPE, text=True, check=True, timeout=120)
    return dict(json.loads(ended.stdout.splitlines()[-1]))


def make_files(folder: Path) -> None:
    """Write certificates, and a key to sign provider tokens with."""
    code = (
        "import sys; from pathlib import Path; from lab.fake.certificates import make_tls_files;"
        "from lab.fake.making import make_apns; folder = Path(sys.argv[1]);"
        "make_tls_files(folder, '127.0.0.1'); make_apns('com.example.app', folder / 'key.p8')"
    )
    subprocess.run([str(FAIRLANE), "-c", code, str(folder)], cwd=ROOT, check=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", choices=CLIENTS, help="this client (repeatable)")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--connections", type=int, default=1)
    chosen = parser.parse_args()
    commands = {client: installed(client) for client in chosen.only or CLIENTS}
    results: dict[str, list[Figures]] = {}
    for _ in range(chosen.runs):  # in turns, as the machine's speed changes
        for client, command_of in commands.items():
            if command_of is None:
                print(f"{client}: its language's tools are not installed", file=sys.stderr)
                continue
            figures = measure(command_of, REQUESTS[client], chosen.connections)
            print(client, figures, file=sys.stderr, flush=True)
            results.setdefault(client, []).append(figures)
    print(json.dumps({"runs": results}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
