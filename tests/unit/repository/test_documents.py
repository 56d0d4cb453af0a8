"""The documents agree with the code, as far as a machine can check."""

import asyncio
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click import Context, Group

from consumers.delivery.channel_registry import load_channels
from dispatcher.model.lifecycle import TASK, WORKER, Lifecycle
from dispatcher.model.view import TaskView
from dispatcher.ports import BatchChannel
from dispatcher.wire.envelope import Envelope, encode_message
from dispatcher.wire.outcome import ALL_SENT, OUTCOME_NAMES, Report
from estate.rules.node_life import NODE_LIFE
from fairlane.cli.main import COMMANDS, cli
from tests.unit.dispatch.consumers.envelopes import envelope

ROOT = Path(__file__).parents[3]
INTERNALS = tuple(f"docs/internals/{page.name}" for page in sorted((ROOT / "docs" / "internals").glob("*.md")))
DOCUMENTS = (
    "README.md",
    "ARCHITECTURE.md",
    "CONTRIBUTING.md",
    "docs/operations.md",
    "docs/delivery.md",
    "docs/estate.md",
    "docs/fairness.md",
    "docs/runbooks.md",
    "docs/spark.md",
    *(f"docs/how-to/{page.name}" for page in sorted((ROOT / "docs" / "how-to").glob("*.md"))),
    *(f"docs/reference/{page.name}" for page in sorted((ROOT / "docs" / "reference").glob("*.md"))),
    "docs/promise.md",
    *INTERNALS,
)
FILE = re.compile(r"`((?:[\w.-]+/)*[\w.-]+\.(?:py|lua|md|toml|yaml|csv|sh|lock)|(?:[\w.-]+/)+)`")
MADE_LATER = (
    "fairlane.toml", "./fairlane.toml", "my_push.py", "ca.pem", "tasks.yaml", "mine.yaml", "people.py", "sale.yaml",
    "vip.py", "provider.py", "bucket.py", "why.py", "rules.toml", "fairlane_job.py", "my_blocking_push.py",
)  # fmt: skip
"""Files that the reader makes."""


def text_of(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


LAWS_TABLE = text_of("docs/internals/ledger.md").partition("### Laws and where they are tested")[2].partition("\n##")[0]
LAWS = [line.split("|")[1:-1] for line in LAWS_TABLE.splitlines() if line.startswith("| ")][1:]


@pytest.mark.parametrize("lifecycle", [TASK, WORKER, NODE_LIFE], ids=lambda lifecycle: lifecycle.name)
def test_the_pictures_of_the_life_cycles_are_those_of_the_tables(lifecycle: Lifecycle) -> None:
    page = "docs/estate.md" if lifecycle is NODE_LIFE else "docs/internals/state.md"
    assert f"```mermaid\n{_picture(lifecycle)}```" in text_of(page)


def _picture(lifecycle: Lifecycle) -> str:
    """Return a Mermaid state diagram of the table."""
    lines = ["stateDiagram-v2"]
    lines += [f"    [*] --> {state}" for state in lifecycle.start]
    for state, events in lifecycle.transitions.items():
        lines += [f"    {state} --> {following}: {event}" for event, following in events.items()]
        if not events:
            lines.append(f"    {state} --> [*]")
    return "\n".join(lines) + "\n"


def test_the_tour_takes_half_an_hour() -> None:
    assert len(text_of("ARCHITECTURE.md").splitlines()) <= 200


def test_the_readme_is_one_page() -> None:
    assert len(text_of("README.md").splitlines()) <= 150


def test_the_index_of_the_internals_names_every_page() -> None:
    pages = {Path(name).name for name in INTERNALS} - {"README.md"}
    assert set(re.findall(r"^\| \[([^]]+)\]\(\1\)", text_of("docs/internals/README.md"), re.MULTILINE)) == pages


@pytest.mark.parametrize("document", DOCUMENTS)
def test_files_that_are_named_exist(document: str) -> None:
    named = {name for name in FILE.findall(text_of(document)) if name not in MADE_LATER}
    assert not [name for name in sorted(named) if not (ROOT / name).exists()]


@pytest.mark.parametrize("document", DOCUMENTS)
def test_links_lead_somewhere(document: str) -> None:
    links = re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", text_of(document))
    local = [link for link in links if "://" not in link]
    assert not [link for link in local if not (ROOT / document).parent.joinpath(link).exists()]


def anchors(document: Path) -> set[str]:
    """Return the anchors that GitHub gives to the headings."""
    headings = re.findall(r"^#+ (.+)$", document.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading).lower().replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("document", DOCUMENTS)
def test_links_to_headings_lead_to_one(document: str) -> None:
    links = re.findall(r"\]\(([^)#:]*)#([^)]+)\)", text_of(document))
    places = [((ROOT / document).parent / (file or Path(document).name), anchor) for file, anchor in links]
    assert not [f"{file.name}#{anchor}" for file, anchor in places if anchor not in anchors(file)]


def names_in(folder: str) -> set[str]:
    files = (ROOT / folder).rglob("test_*.py")
    return {name for file in files for name in re.findall(r"def (test_\w+)", file.read_text("utf-8"))}


def named_in(text: str) -> set[str]:
    return set(re.findall(r"`(test_\w+)`", text))


def test_the_tests_named_for_the_settle_rules_and_laws_exist() -> None:
    named = named_in("\n".join(map(text_of, INTERNALS)))
    assert named
    assert named <= names_in("tests")


def test_each_law_has_a_row_with_a_stateful_test_and_those_of_the_contract_are_there() -> None:
    numbered = [row for row in LAWS if row[0].strip()[0].isdigit()]
    assert [int(row[0].split()[0]) for row in numbered] == list(range(1, 9))
    assert all(named_in(stateful) for _, stateful, *_ in numbered)
    assert {name for _, stateful, single, _ in LAWS for name in named_in(stateful + single)} <= names_in(
        "tests/contract"
    )


def test_commands_in_the_documents_exist() -> None:
    named = re.findall(r"`fairlane (\w[\w-]*)(?: (?!set\b)([a-z][a-z-]*))?", "\n".join(map(text_of, DOCUMENTS)))
    assert len(named) > 50
    for command, sub in named:
        assert command in COMMANDS
        found = cli.get_command(Context(cli), command)
        there = found.list_commands(Context(found)) if isinstance(found, Group) else []
        assert not sub or sub in there, f"fairlane {command} {sub}"


def test_the_reference_is_what_the_code_says() -> None:
    done = subprocess.run(
        [sys.executable, "scripts/reference.py", "--check"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_the_reference_names_the_fields_of_a_task() -> None:
    section = text_of("docs/reference/task-fields.md")
    named = set(re.findall(r"`(\w+)`", " ".join(line.split("|")[1] for line in section.splitlines() if "|" in line)))
    assert named == {*TaskView.__struct_fields__, "message"}
    assert {f"`{name}`" for name in ("total", "pending", *OUTCOME_NAMES)} <= set(re.findall(r"`\w+`", section))


def test_the_channel_in_the_reference_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    channel = channel_in_the_reference("my_push:MyPush", {"region": "eu"}, tmp_path, monkeypatch)
    envelopes = [envelope_to("good"), envelope_to("good", "bad-1")]
    first, second = asyncio.run(_deliver(channel, envelopes))
    assert first == ALL_SENT
    assert second.exceptions is not None
    assert list(second.exceptions) == [1]


def test_the_blocking_channel_in_the_reference_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = tmp_path / "page"
    page.touch()
    channel = channel_in_the_reference("my_blocking_push:MyBlockingPush", {"url": page.as_uri()}, tmp_path, monkeypatch)
    assert asyncio.run(_deliver(channel, [envelope_to("good")])) == [ALL_SENT]


def channel_in_the_reference(path: str, settings: dict[str, str], folder: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    module = path.partition(":")[0]
    blocks = re.findall(rf"```python\n(# {module}\.py\n.*?)```", text_of("docs/reference/channels.md"), re.DOTALL)
    (folder / f"{module}.py").write_text(blocks[0])
    monkeypatch.syspath_prepend(str(folder))
    try:
        return load_channels({"my": path}, {"my": settings})["my"]
    finally:
        sys.modules.pop(module, None)


async def _deliver(channel: BatchChannel, envelopes: list[Envelope]) -> list[Report]:
    await channel.open()
    reports = await channel.deliver(envelopes, "high")
    await channel.close()
    return list(reports)


def envelope_to(*targets: str) -> Envelope:
    return envelope(0, targets, channel="my", message=encode_message({"body": "hi"}))
