"""Copy a journal of the format before Delta: a log of commits in JSON over Parquet files by day and app."""

from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from dispatcher.model.errors import NotFound, Refused
from spark_jobs.journal.files import OUTCOMES, STATES, TASKS, journal_table
from spark_jobs.journal.first_outcomes import TaskState
from spark_jobs.journal.job import create_journal
from spark_jobs.journal.landing import state_rows
from spark_jobs.journal.tasks import CONTROL
from spark_jobs.storage.data_files import DataFile, FileWriter, write_rows
from spark_jobs.storage.delta import rows_in
from spark_jobs.storage.folder import Folder


def import_journal(old: Path, tables: Folder) -> dict[str, int]:
    """Copy an old journal into new tables. Returns the number of rows by table. Raises NotFound, Refused.

    old, tables: the folders of all tables, which must differ. A copy that was killed has no state, and is refused; the
    new folder can then be deleted.
    """
    root = old.resolve() / "journal"
    commits = [msgspec.json.decode(path.read_bytes()) for path in sorted((root / "log").glob("*.json"))]
    if not commits:
        raise NotFound(f"{root} has no journal of the format before Delta.", "Name its folder of all tables.")
    create_journal(tables)
    cursors, files = commits[-1]["cursors"], defaultdict[str, list[dict[str, Any]]](list)
    for file in _files(commits).values():
        files[file["table"]].append(file)
    bases = {name: journal_table(tables, name).read() for name in (*files, STATES)}
    if any(base.files for base in bases.values()):
        raise Refused(f"{tables} has a journal already.", "Name an empty folder with --tables.")
    topics = {topic: cursor for topic, cursor in cursors.items() if topic != CONTROL}
    for name in files:
        copied = [made for file in files[name] for made in _copied(root, tables, name, file)]
        bases[name].commit(copied, {CONTROL: cursors.get(CONTROL, "")} if name == TASKS else topics)
    states = [file for topic in topics for file in _states(root, tables, commits[-1], topic)]
    bases[STATES].commit(states, topics)
    return {name: sum(file["rows"] for file in files[name]) for name in files}


def _files(commits: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return the files of the last commit, by path."""
    files: dict[str, dict[str, Any]] = {}
    for commit in commits:
        kept = {} if commit.get("whole") else files
        files = {path: file for path, file in kept.items() if path not in commit["removed"]}
        files |= {file["path"]: file for file in commit["added"]}
    return files


def _copied(root: Path, tables: Folder, name: str, file: dict[str, Any]) -> list[DataFile]:
    table = journal_table(tables, name)
    partition = {"day": file["day"]} if name == OUTCOMES else {}
    writer = FileWriter(table.folder, table.schema, **partition)
    by_app = replace(table, folder=Folder(str(root)), partitioned_by="app" if name == OUTCOMES else "")
    for batch in rows_in(by_app, [file["path"]]):
        writer.write(batch)
    return writer.close()


def _states(root: Path, tables: Folder, commit: dict[str, Any], topic: str) -> list[DataFile]:
    tasks: dict[str, TaskState] = {}
    for name in commit["states"].get(topic, ()):
        _format, some = msgspec.msgpack.decode((root / name).read_bytes(), type=tuple[int, dict[str, TaskState]])
        tasks |= some
    table = journal_table(tables, STATES)
    return write_rows(table.folder, table.schema, state_rows(tasks, commit["cursors"][topic]), topic=topic)
