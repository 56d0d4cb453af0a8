"""Write the boards and rules of deploy/monitoring.

python -m scripts.boards                                  # writes the files that are checked in
python -m scripts.boards --check                          # exits with 1 if one of them is out of date
python -m scripts.boards --tenant push --to monitoring    # those of an installation with another tenant
"""

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.dashboard import Dashboard

from scripts.boards.alert import rules_text
from scripts.boards.alerts import BOOKIE_WRITES, alerts
from scripts.boards.estate import estate_board
from scripts.boards.installation import Installation
from scripts.boards.service import service_board

FOLDER: Final = Path(__file__).resolve().parents[2] / "deploy" / "monitoring"


def main(arguments: Sequence[str]) -> int:
    """Return the exit code."""
    options = _options(arguments)
    try:
        installation = Installation(tenant=options.tenant, runbooks=options.runbooks)
    except ValueError as error:
        print(f"{error}.", file=sys.stderr)
        return 2
    files = rendered(installation)
    if options.check:
        return _check(files, options.to)
    options.to.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (options.to / name).write_text(text, encoding="utf-8")
    return 0


def rendered(installation: Installation) -> dict[str, str]:
    """Return the text of each file by its name."""
    return {
        "board-service.json": _json(service_board(installation)),
        "board-estate.json": _json(estate_board(installation)),
        "rules.yaml": rules_text((BOOKIE_WRITES,), alerts(installation), installation),
    }


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    usual = Installation()
    parser = argparse.ArgumentParser(prog="python -m scripts.boards", description="Write Grafana boards and rules.")
    parser.add_argument("--tenant", default=usual.tenant, help="pulsar.tenant of the installation")
    parser.add_argument("--runbooks", default=usual.runbooks, help="address of the runbooks in alerts")
    parser.add_argument("--to", type=Path, default=FOLDER, help="folder of the files")
    parser.add_argument("--check", action="store_true", help="write nothing; fail if a file is out of date")
    return parser.parse_args(arguments)


def _check(files: Mapping[str, str], folder: Path) -> int:
    stale = [name for name, text in files.items() if _text(folder / name) != text]
    for name in stale:
        print(f"{folder / name} is out of date. Run `python -m scripts.boards`.", file=sys.stderr)
    return 1 if stale else 0


def _text(file: Path) -> str | None:
    return file.read_text(encoding="utf-8") if file.exists() else None


def _json(board: Dashboard) -> str:
    return json.dumps(board, cls=JSONEncoder, indent=1, sort_keys=True, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
