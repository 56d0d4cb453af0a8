"""The package that executors are sent works without a folder."""

import subprocess
import sys
from pathlib import Path

from spark_jobs.session.package import pack

CODE = """
import sys
sys.path[:] = [FILE] + [path for path in sys.path if path not in ("", ROOT)]
sys.meta_path[:] = [finder for finder in sys.meta_path if "editable" not in repr(finder).lower()]
import quotas.ledger, spark_jobs.ingest.job
from backends.redis.client import assemble, lua_folder, lua_texts
assert FILE in quotas.ledger.__file__ and FILE in spark_jobs.ingest.job.__file__
assert "redis.call" in assemble("admit", lua_texts(lua_folder("backends.redis")))
"""


def test_packages_and_scripts_are_read_from_the_file(tmp_path: Path) -> None:
    file = str(pack(tmp_path / "fairlane.zip"))
    root = str(Path(__file__).parents[3])
    code = CODE.replace("FILE", repr(file)).replace("ROOT", repr(root))
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60, cwd=tmp_path)
