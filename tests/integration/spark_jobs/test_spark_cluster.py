"""On a cluster of Spark's own, with executors in processes that can be lost: they find the package, and no target is
lost or sent twice."""

import json
import os
import re
import signal
import subprocess
import sys
import venv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from backends.pulsar.admin import PulsarAdmin
from benchmarks.ingest import processes
from benchmarks.spark_cluster import SparkCluster, parent_of, spark_cluster
from dispatcher.model.errors import NotFound
from dispatcher.wire.topics import Topics
from fairlane.settings import Settings
from producers.client import PushClient
from tests.integration.pulsar_helpers import limit_lane
from tests.integration.worker_crew import crew, devices, environment, eventually
from tests.s3_server import connector, s3_server
from tests.spark_document import begin, blocks_of, path_with_commands

pytest.importorskip("pyspark")
pytest.importorskip("moto")

ROWS, FEW, CHUNK = 20_000, 200, 5
WIDE = "--driver-memory 512m --executor-memory 512m --conf spark.ui.enabled=false"
SMALL = f"{WIDE} --conf spark.cores.max=1"
DELIVERED_S = 120.0
STARTED_S, DONE_S = 300.0, 600.0
OWN_SCRIPT = """
from pyspark.sql import SparkSession
import spark_jobs

spark = SparkSession.builder.getOrCreate()
spark_jobs.register(spark)
table = spark.range(0, 200, 1, 2).selectExpr("concat('device-', id) target")
options = {"id": "installed", "app": "shop", "tier": "high", "channel": "log", "message": "Hi"}
table.write.format("fairlane").mode("append").options(**options).save()
"""
FEW_PARTS = " --conf spark.sql.shuffle.partitions=2 --conf spark.sql.adaptive.enabled=false"

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1_800)]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkCluster]:
    with spark_cluster(tmp_path_factory.mktemp("cluster")) as running:
        yield running


@pytest.fixture(scope="module")
def bare_python(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A Python that has all that Fairlane needs, and not Fairlane."""
    folder = tmp_path_factory.mktemp("bare")
    venv.create(folder)
    packages = next(path for path in sys.path if path.endswith("site-packages"))
    (folder / f"lib/python{sys.version_info[0]}.{sys.version_info[1]}/site-packages/all.pth").write_text(packages)
    python = str(folder / "bin" / "python")
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    subprocess.run([python, "-c", "import pulsar, pyarrow"], check=True, cwd=folder, env=env)
    own = subprocess.run([python, "-c", "import spark_jobs"], check=False, cwd=folder, env=env, capture_output=True)
    assert own.returncode
    return python


def small(settings: Settings, python: str, folder: Path) -> dict[str, str]:
    """The environment of a driver beside which the executors have little."""
    given = {"PYSPARK_PYTHON": python, "SPARK_LOCAL_IP": "127.0.0.1", "PATH": path_with_commands(folder / "bin")}
    return {**environment(settings), **given}


def documented(cluster: SparkCluster, folder: Path, count: int, shared: str = "") -> list[str]:
    """Return the commands of docs/spark.md for this cluster. The folder gets the files they need; the audience has
    `count` rows. shared: the shared folder; by default this one."""
    (folder / "people.csv").write_text("target\n" + "".join(f"device-{number}\n" for number in range(count)))
    (folder / "sale.yaml").write_text(f"{{id: sale, app: shop, tier: high, channel: log, message: Hi, chunk: {CHUNK}}}")
    blocks = blocks_of("On a cluster")
    for block in blocks:
        if block.file:
            (folder / block.file).write_text(block.text)
    here = {"spark://MASTER:7077": cluster.url, "/shared": shared or str(folder)}
    commands = [block.text.strip() for block in blocks if block.kind == "sh"]
    for there, instead in here.items():
        commands = [command.replace(there, instead) for command in commands]
    return commands


def lane(admin: PulsarAdmin, names: Topics) -> tuple[int, int]:
    """(attempts that write to the task's lane now, envelopes that came into it)."""
    try:
        found = admin.stats(names.own_lane("sale"))
    except NotFound:
        return 0, 0
    return len(found["publishers"]), int(found["msgInCounter"])


def python_writer(executor: int) -> int:
    """The process id of what runs an executor's present attempt."""
    daemons = {pid for pid, command in processes() if "pyspark.daemon" in command}
    return next(pid for pid in daemons if parent_of(pid) in daemons and parent_of(parent_of(pid)) == executor)


def test_executors_that_are_killed_cost_no_target(
    cluster: SparkCluster,
    bare_python: str,
    fresh_settings: Settings,
    admin: PulsarAdmin,
    names: Topics,
    tmp_path: Path,
) -> None:
    command, _ = documented(cluster, tmp_path, ROWS)
    env = small(fresh_settings, bare_python, tmp_path)
    limit_lane(admin, names.own_lane("sale"), ROWS // CHUNK // 40)  # an attempt would take half a minute
    with begin(command.replace("--memory 1g", "--memory 512m -o json") + FEW_PARTS, tmp_path, env) as ingest:
        eventually(lambda: lane(admin, names)[0] == 2 or ingest.poll() is not None, STARTED_S, "both executors write")
        one, other = cluster.executors()
        os.kill(one, signal.SIGKILL)
        os.kill(python_writer(other), signal.SIGKILL)
        limit_lane(admin, names.own_lane("sale"), -1)
        out, err = ingest.communicate(timeout=STARTED_S)
    assert ingest.returncode == 0, err
    assert json.loads(out)["accepted"] == ROWS
    assert lane(admin, names)[1] > ROWS // CHUNK
    with PushClient.connect(fresh_settings) as api, crew(fresh_settings, tmp_path / "crew", "one", "two") as members:
        members.check_sent_once(api.task("sale"), devices(ROWS), DELIVERED_S)


def test_executors_have_the_package_by_py_files_or_installed(
    cluster: SparkCluster, bare_python: str, fresh_settings: Settings, tmp_path: Path
) -> None:
    (tmp_path / "own.py").write_text(OWN_SCRIPT)
    _, submit = documented(cluster, tmp_path, FEW)
    shipped = submit.replace("--py-files", f"{SMALL} --py-files")
    installed = f"PYSPARK_PYTHON='{sys.executable}' spark-submit --master {cluster.url} {SMALL} own.py"
    both = f"{installed} &\n{shipped}\nwait $!\n"
    with begin(both, tmp_path, small(fresh_settings, bare_python, tmp_path)) as running:
        out, err = running.communicate(timeout=STARTED_S)
    assert running.returncode == 0, out + err
    with PushClient.connect(fresh_settings) as api, crew(fresh_settings, tmp_path / "crew", "one") as members:
        for name in ("installed", "sale"):
            members.check_sent_once(api.task(name), devices(FEW), DELIVERED_S)


def test_tables_of_a_cluster_that_shares_no_folder_are_in_a_bucket(
    cluster: SparkCluster, bare_python: str, fresh_settings: Settings, tmp_path: Path
) -> None:
    pack, submit = documented(cluster, tmp_path, FEW, "s3://pushes")[1].splitlines()
    submit = submit.partition(" ingest ")[0].replace("--py-files", f"{WIDE} --py-files")
    env = small(fresh_settings, bare_python, tmp_path) | {"FAIRLANE_TABLES": "s3://pushes/tables"}
    people, optout = devices(FEW + 1), devices(1, first=FEW)
    with s3_server() as store:
        env |= store.variables
        store.make_bucket("pushes")
        store.put("pushes/people.parquet", pa.table({"target": people}))
        store.put("pushes/people.csv", pa.table({"target": devices(FEW)}))
        store.put("pushes/optout.csv", pa.table({"target": optout}))
        with_connector = submit.replace("--py-files", f"--packages {connector()} --py-files")
        tables = "--audience s3://pushes/people.parquet --suppress s3://pushes/optout.csv"
        with (
            PushClient.connect(fresh_settings) as api,
            crew(fresh_settings, tmp_path / "crew", "one", config="[journal]\ntargets = 'all'") as members,
        ):
            run("fairlane backlog snapshot --once", tmp_path, env)
            run(f"{pack}\n{with_connector} ingest sale.yaml {tables}", tmp_path, env)
            members.check_sent_once(api.task("sale"), devices(FEW), DELIVERED_S)
            run("fairlane backlog snapshot --once", tmp_path, env)
        journal, summed, report = (
            record(run(f"{submit} {command} -o json", tmp_path, env))
            for command in ("journal run --once", "reconcile sale --audience s3://pushes/people.csv", "backlog report")
        )
    assert journal["outcomes"] == FEW
    [task] = summed["tasks"]
    assert (task["sent"], task["adds_up"], task["live"], summed["differences"]) == (FEW, True, "same", [])
    assert (report["snapshots"], report["journal_rows"]) == (2, FEW)


def record(text: str) -> Any:
    """Return the JSON that a command printed. spark-submit puts its messages before it."""
    return json.loads(re.sub(r"\A.*?^(?=[\[{])", "", text, flags=re.DOTALL | re.MULTILINE))


def run(script: str, folder: Path, env: dict[str, str]) -> str:
    """Return what commands print."""
    with begin(script, folder, env) as running:
        out, err = running.communicate(timeout=DONE_S)
    assert running.returncode == 0, out + err
    return out
