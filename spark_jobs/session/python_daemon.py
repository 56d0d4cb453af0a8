"""What starts Spark's Python workers on this machine: Spark's own daemon, out of the installed pyspark.

Spark puts a zip of pyspark before all that is installed. Python keeps no compiled form of what it imports from a zip,
so each daemon and each worker would compile a third of pyspark anew, which takes four times as long as all else that it
does at its start.
"""

import sys
from importlib.util import find_spec
from pathlib import Path

_ZIPS = ("pyspark.zip", "-src.zip")
"""pyspark and py4j: python/lib/NAME of the folder of pyspark."""


def without_zips(path: list[str]) -> list[str]:
    """A module path on which the pyspark that is installed comes first, if it is what the zips were packed from."""
    zips = [Path(entry) for entry in path if entry.endswith(_ZIPS)]
    before, sys.path[:] = sys.path[:], [entry for entry in path if not entry.endswith(_ZIPS)]
    try:
        installed = find_spec("pyspark")
    finally:
        sys.path[:] = before
    same = installed and installed.origin and all(Path(installed.origin).parent == one.parents[2] for one in zips)
    return [entry for entry in path if not entry.endswith(_ZIPS)] if same else path


if __name__ == "__main__":
    sys.path[:] = without_zips(sys.path)
    from pyspark.daemon import manager

    manager()
