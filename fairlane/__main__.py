"""Entry point of `python -m fairlane` and of the command `fairlane`."""

import sys
from contextlib import suppress
from pathlib import Path

from fairlane.public_names import ROOT, hidden_package


def main() -> None:
    """Run the command line and exit with one of the documented codes."""
    try:
        from fairlane.cli.main import main as run
    except ImportError:
        hidden = hidden_package()
        if hidden is None:
            raise
        sys.exit(f"fairlane: {hidden}")
    run()


def _put_working_directory_last() -> None:
    """Move the working directory to the end of the import path.

    Python puts it first for `-m`, and a file there could have the name of one of our packages.
    """
    with suppress(FileNotFoundError):  # a deleted directory has no files
        here = Path.cwd()
        if not sys.flags.safe_path and here != ROOT and Path(sys.path[0]) == here:
            sys.path.append(sys.path.pop(0))


if __name__ == "__main__":
    _put_working_directory_last()
    main()
