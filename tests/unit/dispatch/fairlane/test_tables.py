"""Tables in narrow terminals: no number and no id is cut or broken, and what has no room is named."""

import json
import re
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import asdict
from io import StringIO
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import Mock, patch

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console, RenderableType

from dispatcher.analysis.situation import Situation
from dispatcher.analysis.what_if import FinishChange
from dispatcher.model.service_settings import globals_of
from dispatcher.model.view import TargetCounts, TaskView, TierStats, WorkerBeat
from fairlane.cli.base.output import Output
from fairlane.cli.handlers import effects as shown_effects
from fairlane.cli.handlers import settings, targets
from fairlane.cli.handlers import task as task_handlers
from fairlane.figures.rows import task_fields, worker_fields
from fairlane.figures.usage import AppUsage
from fairlane.screen.fields import Kind
from fairlane.screen.render import OutcomeBar, screen, tasks_table, tiers_table, workers_table
from fairlane.screen.sample import TierFigures, sample_of
from fairlane.screen.table import LONG_WORD, FittedTable, record_of, table_of
from lab.demo.report import DemoResult, ShareMeter, tasks_report, tiers_report
from tests.unit.command_line import CommandLine
from tests.unit.dispatch.fairlane.test_screen import Service
from tests.unit.tasks import task_view
from tests.virtual_clock import VirtualClock

LEFT_OUT = "left out at this width: "
WIDTHS = [80, 100, 120]


def drawn(shown: RenderableType, width: int) -> list[str]:
    console = Console(file=StringIO(), width=width, highlight=False)
    console.print(shown)
    return console.file.getvalue().splitlines()  # type: ignore[attr-defined,no-any-return]


def left_out(lines: list[str], notes: Sequence[str]) -> set[str]:
    """Return the headers of the columns that the table says it leaves out."""
    note = " ".join(line.strip() for line in lines if line.strip() not in notes).partition(LEFT_OUT)[2]
    return set(note.split(", ")) if note else set()


def crowded_out(table: FittedTable, index: int, gone: set[str], width: int) -> bool:
    """Return whether an id has no room beside the other ids that are shown."""
    ids = [one for one, (header, kind) in enumerate(table.columns) if kind is Kind.ID and header not in gone]
    longest = [max(len(row[one].plain) for row in table.rows) for one in (index, *ids)]  # type: ignore[union-attr]
    headers = [len(table.columns[one][0]) for one in (index, *ids)]
    return sum(map(max, longest, headers)) + len(ids) > width


def check(table: RenderableType, width: int) -> None:
    """No number and no id is cut or broken; ids are left out last."""
    assert isinstance(table, FittedTable)
    lines = drawn(table, width)
    assert all(len(line) <= width for line in lines)
    gone = left_out(lines, table.notes)
    assert gone <= {header for header, _ in table.columns}
    for index, (header, kind) in enumerate(table.columns):
        cells = [row[index].plain for row in table.rows] if kind is not Kind.BAR else []  # type: ignore[union-attr]
        if header in gone:
            assert index > 0
            assert kind is not Kind.ID or crowded_out(table, index, gone, width)
            continue
        for cell in cells:
            pieces = [word for word in cell.split() if len(word) <= LONG_WORD] if kind is Kind.TEXT else [cell]
            for piece in pieces:
                assert any(piece in line for line in lines), (header, piece)


names = st.text("abXY019._-", min_size=1, max_size=64)
counts, rates = st.integers(0, 10**10), st.floats(0, 10**7)
seconds = st.none() | st.floats(0, 10**9)
tiers = st.sampled_from(["high", "medium", "low"])
tasks = st.builds(
    task_view,
    names,
    tier=tiers,
    state=st.sampled_from(["scheduled", "running", "paused", "completed", "cancelled"]),
    targets=st.builds(TargetCounts, total=counts, sent=counts, failed=counts, pending=counts),
    sealed=st.booleans(),
    rate=rates,
    eta_s=seconds,
    weight=st.floats(0.001, 10**4),
)
beats = st.builds(
    WorkerBeat,
    id=names,
    host=names,
    pid=st.integers(1, 4_000_000),
    state=st.sampled_from(["serving", "draining", "suspect", "lost", "stopped"]),
    started_ms=st.integers(0, 10**12),
    seen_ms=st.integers(10**12, 2 * 10**12),
    version=st.just("0.3.0"),
    lanes=counts,
    in_flight=counts,
    buffered=counts,
    rate=rates,
    tiers=st.dictionaries(tiers, st.builds(TierStats, sent=counts)),
)
parts = st.none() | st.floats(0, 1)
figures = st.builds(
    TierFigures,
    tier=tiers,
    weight=st.floats(0.001, 10**4),
    wanted=parts,
    actual=parts,
    rate=rates,
    backlog=counts,
    drain_s=seconds,
)
widths = st.integers(80, 220)


@given(widths, st.lists(tasks, max_size=4))
def test_no_number_and_no_id_of_a_task_is_cut(width: int, found: list[TaskView]) -> None:
    check(tasks_table(found, 3), width)
    check(tasks_report(DemoResult(found, {}, [], ShareMeter(), 12.0)), width)


@given(widths, st.lists(beats, min_size=1, max_size=3))
def test_no_number_and_no_id_of_a_worker_is_cut(width: int, found: list[WorkerBeat]) -> None:
    check(workers_table(found), width)
    check(workers_table(found, [worker_fields(beat, 10**12) for beat in found]), width)
    check(tiers_report(DemoResult([], {}, found, ShareMeter(), 12.0)), width)


@given(widths, st.lists(figures, max_size=3), seconds)
def test_no_number_of_a_tier_is_cut(width: int, found: list[TierFigures], wait_s: float | None) -> None:
    check(tiers_table(found), width)
    check(tiers_table(found, {tier.tier: wait_s for tier in found}), width)


effects = st.builds(FinishChange, task=names, app=names, tier=tiers, pending=counts, eta_s=seconds, eta_after_s=seconds)


@given(widths, st.lists(effects, min_size=1, max_size=3))
def test_no_number_of_a_dry_run_is_cut(width: int, found: list[FinishChange]) -> None:
    tables: list[RenderableType] = []
    output = SimpleNamespace(emit=lambda _fields, table: tables.append(table()), as_json=True)
    situation = Situation([SALE], globals_of({}), 1.0, 0)
    with patch.object(shown_effects, "effects", lambda *_: found):
        shown_effects.show_effects(cast("Output", output), situation, situation, None)
    check(tables[0], width)


words = st.text("abc, ", max_size=60)
values = st.one_of(
    st.none(),
    st.booleans(),
    counts,
    rates,
    words,
    names,
    st.lists(names, max_size=2),
    st.dictionaries(names, counts, max_size=2),
)
COMMANDS: dict[str, tuple[str, ...]] = {
    "app list": settings.APP_COLUMNS,
    "channel list": settings.CHANNEL_COLUMNS,
    "task failures": task_handlers.FAILURE_COLUMNS,
    "task failures --by-reason": task_handlers.REASON_COLUMNS,
    "task outcomes": task_handlers.OUTCOME_COLUMNS,
    "dead-letters list": targets.GROUP_COLUMNS,
    "dead-letters show": targets.TARGET_COLUMNS,
    "dead-letters replay": targets.REPLAY_COLUMNS,
    "task submit": ("id", "accepted", "refused", "seconds"),
    "signals": ("tier", "weight", "backlog", "arrival_rate", "rate", "drain_s", "wanted", "actual", "spare"),
    "signals' first line": ("capacity", "rate", "workers", "workers_needed", "limited_by", "caps"),
    "doctor": ("level", "what", "fix"),
    "config show": ("name", "value", "source", "description"),
    "backlog report": (
        *("task", "app", "tier", "channel", "targets", "backlog", "from", "until", "done in"),
        *("held back by", "wait p50", "p95", "retried", "not sent"),
    ),
    "simulate": ("task", "tier", "targets", "sends", "arrived", "first sent", "ended"),
    "bench": ("figure", "median", "least", "most"),
    "reconcile": ("task", "app", "state", "audience", "sent", "invalid", "failed", "expired", "adds_up", "live"),
}


@pytest.mark.parametrize("command", COMMANDS)
@given(width=widths, data=st.data())
def test_no_table_of_a_command_cuts_a_number_or_an_id(command: str, width: int, data: st.DataObject) -> None:
    columns = COMMANDS[command]
    row = st.fixed_dictionaries(dict.fromkeys(columns, values))
    check(table_of(data.draw(st.lists(row, max_size=3)), columns), width)


@given(widths, st.dictionaries(names, values, min_size=1, max_size=6))
def test_no_number_and_no_id_of_a_record_is_broken(width: int, record: dict[str, Any]) -> None:
    shown: Any = record_of(record)
    lines = drawn(shown, width)
    assert all(len(line) <= width for line in lines)
    for group in shown.groups:
        for name, value in group:
            assert all(any(word in line for line in lines) for word in (name, *value.split()))


SALE = task_view(
    "shop-flash-sale-ab12", tier="high", state="running", sealed=True, rate=1_800.4, eta_s=7_260.0, weight=3.0,
    targets=TargetCounts(total=5_000_000, sent=60_000, pending=4_940_000),
)  # fmt: skip
NEWS = task_view(
    "news-daily-ab12", state="paused", sealed=False, targets=TargetCounts(total=60_000, sent=30_000, pending=30_000)
)
TIPS = task_view(
    "shop-tips", tier="low", state="cancelled", finished_ms=1,
    targets=TargetCounts(total=20_000, sent=8_280, cancelled=11_720),
)  # fmt: skip
BEATS = [
    WorkerBeat(
        id=f"vm-8025-39fbce-{number}", host="vm-8025", pid=12_345, state=state, started_ms=0, seen_ms=500_000,
        version="0.3.0", lanes=1_200, in_flight=300, buffered=10_500, rate=2_100.5,
        tiers={"high": TierStats(sent=5_260_882)},
    )
    for number, state in ((1, "serving"), (2, "lost"))
]  # fmt: skip

TASKS_AT = {
    80: """
task                 tier channel state       sent not sent     total      ETA
shop-flash-sale-ab12 high null    running   60,000        0 5,000,000 2 h 01 m
news-daily-ab12      high null    paused    30,000        0   60,000+        -
shop-tips            low  null    cancelled  8,280   11,720    20,000        -
left out at this width: progress, targets/s, weight
""",
    100: """
task                 tier channel state     progress      sent not sent     total targets/s      ETA
shop-flash-sale-ab12 high null    running               60,000        0 5,000,000     1,800 2 h 01 m
news-daily-ab12      high null    paused    ━━━━━       30,000        0   60,000+         0        -
shop-tips            low  null    cancelled ━━━━━━━━━━━  8,280   11,720    20,000         0        -
left out at this width: weight
""",
    120: """
task                  tier  channel  state      progress          sent  not sent      total  targets/s       ETA  weight
shop-flash-sale-ab12  high  null     running                    60,000         0  5,000,000      1,800  2 h 01 m       3
news-daily-ab12       high  null     paused     ━━━━━━━         30,000         0    60,000+          0         -       1
shop-tips             low   null     cancelled  ━━━━━━━━━━━━━━   8,280    11,720     20,000          0         -       1
""",
}
WORKERS_AT_80 = """
                                    in                                seen
worker           state   lanes  flight buffered targets/s      sent    ago   pid
vm-8025-39fbce-1 serving 1,200     300   10,500     2,100 5,260,882  0.5 s 12345
vm-8025-39fbce-2 lost    1,200     300   10,500         - 5,260,882  0.5 s 12345
left out at this width: uptime, host
"""


def text(lines: list[str]) -> str:
    return "\n".join(line.rstrip() for line in lines)


@pytest.mark.parametrize("width", WIDTHS)
def test_the_list_of_tasks_shrinks_its_bar_and_keeps_its_numbers(width: int) -> None:
    assert text(drawn(tasks_table([SALE, NEWS, TIPS], 3), width)) == TASKS_AT[width].strip("\n")


def test_a_bar_shows_what_ended_unsent_in_red() -> None:
    def colours(sent: int, not_sent: int, total: int) -> list[int]:
        console = Console(width=10, force_terminal=True, color_system="truecolor", file=StringIO())
        spans = [line.text for line in console.render(OutcomeBar(sent, not_sent, total)) if "━" in line.text]
        return [len(span) for span in spans]

    assert colours(10, 0, 10) == [10]
    assert colours(4, 6, 10) == [4, 6]
    assert colours(999, 1, 1_000) == [9, 1], "a single failure is seen"
    assert colours(0, 0, 0) == []
    assert colours(10**15, 0, 0) == [10], "counts that do not fit fill the bar"
    assert colours(9, -5, 10) == [9]


def worker_list() -> RenderableType:
    return workers_table(BEATS, [worker_fields(beat, 500_500) for beat in BEATS])


def test_the_list_of_workers_at_80_columns() -> None:
    assert text(drawn(worker_list(), 80)) == WORKERS_AT_80.strip("\n")


def test_the_list_of_workers_is_whole_at_120_columns() -> None:
    head, serving, lost = drawn(worker_list(), 120)
    assert head.split()[-2:] == ["host", "pid"]
    assert serving.split()[-1] == "12345"
    assert "2,100" in serving
    assert "2,100" not in lost


@pytest.mark.parametrize("width", WIDTHS)
def test_top_and_the_demo_show_every_number_whole(width: int) -> None:
    top = screen(sample_of(Service(BEATS, [SALE, NEWS]), VirtualClock()), "Fairlane", [])
    report = tasks_report(DemoResult([SALE, NEWS], {}, BEATS, ShareMeter(), 12.0))
    shown = text(drawn(top, width)) + text(drawn(report, width))
    for figure in ("5,000,000", "60,000", "60,000+", "4,940,000", "2 h 01 m", "shop-flash-sale-ab12", "10,500"):
        assert figure in shown
    assert "…" not in shown


def test_an_app_without_limits_shows_one_sign_for_none() -> None:
    usage = asdict(
        AppUsage(
            app="shop",
            weight=1.0,
            cap=0,
            cap_burst=0,
            channel_caps={},
            task_limit=0,
            target_limit=0,
            tasks=2,
            queued=60_000,
            rate=0.0,
        )
    )
    _, row = drawn(table_of([usage], settings.APP_COLUMNS), 120)
    assert row.split() == ["shop", "1", "-", "-", "-", "2", "-", "60,000", "-", "0"]


@pytest.fixture
def sale(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that knows one task."""
    client = Mock()
    client.task.return_value.progress.return_value = SALE
    client.message.return_value = {"body": "Hi"}
    client.channel_trouble.return_value = ""
    monkeypatch.setattr(task_handlers, "client_of", lambda _: nullcontext(client))


@pytest.mark.usefixtures("sale")
def test_a_task_is_shown_with_what_matters_first(cli: CommandLine) -> None:
    lines = cli(["task", "show", SALE.id]).out.splitlines()
    first = [line.split("  ")[0] for line in lines[: lines.index("")]]
    assert first == ["id", "state", "done", "targets/s", "ETA", "targets.failed", "channel", "reason"]
    assert "60,000 of 5,000,000: 60,000 sent (1.2%)" in lines[2]
    assert not any("_ms" in line for line in lines)


@pytest.mark.usefixtures("sale")
def test_a_task_as_json_keeps_its_raw_numbers(cli: CommandLine) -> None:
    shown = {**task_fields(SALE), "message": {"body": "Hi"}}
    assert json.loads(cli(["task", "show", SALE.id, "-o", "json"]).out) == shown


def test_times_of_a_record_are_local_and_name_their_zone() -> None:
    shown = text(drawn(record_of({"created_ms": 1_795_259_347_987, "finished_ms": 0}), 80)).splitlines()
    assert re.fullmatch(r"accepted  (\d{4}-\d\d-\d\d )?\d\d:\d\d:\d\d", shown[0])
    assert shown[1].split() == ["ended", "-"]
    assert shown[2].startswith("times in ")


def test_what_a_number_names_takes_no_separators() -> None:
    shown = drawn(record_of({"pulsar": {"pid": 32_725, "ports": {"web": 18_082}, "memory_bytes": 467_353_600}}), 80)
    assert [line.split()[-1] for line in shown] == ["32725", "18082", "467,353,600"]


def test_a_task_that_has_ended_has_no_eta() -> None:
    done = task_view("done", state="completed", eta_s=0.0, finished_ms=1)
    assert drawn(tasks_table([done], 1), 200)[-1].split()[-2:] == ["-", "1"]


@pytest.mark.parametrize(
    "printed", ["see [estate] [/x] [bold]", table_of([{"task": "[estate] [/x] [bold]"}], ["task"])]
)
def test_text_in_brackets_is_shown_as_it_is(printed: RenderableType, capsys: pytest.CaptureFixture[str]) -> None:
    Output().emit({}, lambda: printed)
    assert "[estate] [/x] [bold]" in capsys.readouterr().out
