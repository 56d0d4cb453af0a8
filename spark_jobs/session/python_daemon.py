"""Start Spark's Python workers on this machine: Spark's own daemon, from the installed pyspark.

Spark puts a zip of pyspark first on the module path. Python does not cache compiled modules from a zip, so each daemon
and each worker would compile a third of pyspark again. That takes four times as long as the rest of its start.
"""

import sys
from importlib.util import find_spec
from pathlib import Path

_ZIPS = ("pyspark.zip", "-src.zip")
"""Names of the zips of pyspark and py4j: python/lib/NAME in pyspark's folder."""


def without_zips(path: list[str]) -> list[str]:
    """Return the module path with the installed pyspark first, if the zips were packed from it."""
    zips = [Path(entry) for entry in path if entry.endswith(_ZIPS)]
    before, sys.path[:] = sys.path[:], [entry for entry in path if not entry.endswith(_ZIPS)]
    try:
        installed = find_spec("pyspark")
    finally:
        sys.path[:] = before
    same = installed and installed.origin and all(Path(installed.origin).parent == each.parents[2] for each in zips)
    return [entry for entry in path if not entry.endswith(_ZIPS)] if same else path


if __name__ == "__main__":
    sys.path[:] = without_zips(sys.path)
    from pyspark.daemon import manager

    manager()
