"""Entry point of `python -m benchmarks NAME`."""

import sys

from benchmarks.command import bench
from fairlane.cli.main import run

if __name__ == "__main__":
    sys.exit(run(sys.argv[1:], bench, "benchmarks"))
