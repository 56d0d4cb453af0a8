"""The limits of a worker's process."""

import subprocess
import sys

import pytest

LOWERED = """
import resource
from fairlane.worker.process.process import allow_open_files
resource.setrlimit(resource.RLIMIT_NOFILE, ({soft}, {hard}))
allow_open_files()
print(*resource.getrlimit(resource.RLIMIT_NOFILE))
"""


@pytest.mark.parametrize(("soft", "hard"), [(512, 1_500), (1_500, 1_500)])
def test_a_worker_may_open_as_many_files_as_the_hard_limit_allows(soft: int, hard: int) -> None:
    done = subprocess.run(
        [sys.executable, "-c", LOWERED.format(soft=soft, hard=hard)], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == [str(hard), str(hard)]
