"""The report on the backlog, made of collected facts."""

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

pytest.importorskip("pyarrow")

from fairlane.pages.picture import legend, short, time_ticks
from spark_jobs.backlog import pictures as backlog_pictures
from spark_jobs.backlog.causes import ADVICE, MEANINGS, grouped, mixed
from spark_jobs.backlog.facts import Facts, ReportOptions
from spark_jobs.backlog.job import report_of
from spark_jobs.backlog.journal import JournalFacts, JournalQuery
from spark_jobs.backlog.page import page, period, sections, sentences
from spark_jobs.backlog.pictures import CAUSE_COLOURS
from spark_jobs.backlog.report import BacklogReport, age_bands, span
from spark_jobs.backlog.snapshots import Times
from tests.unit.spark_jobs.backlog_rows import START_MS, ms, tiers

OPTIONS = ReportOptions(Path("tables"), START_MS, recent_s=20)
GRID = [ms(0), ms(10), ms(20)]


def group(tier: str, app: str, channel: str, **counts: int) -> dict[str, Any]:
    return {"tier": tier, "app": app, "channel": channel, "tasks": 0, "backlog": 0, "arrived": 0, "done": 0, **counts}


def live(name: str, tier: str, pending: int, **fields: Any) -> dict[str, Any]:
    given: dict[str, Any] = {
        "task": name, "tier": tier, "app": "shop", "channel": "push", "state": "running", "held_by": "", "weight": 1.0,
        "cap": 0, "created_ms": ms(-60), "start_ms": 0, "backlog": pending, "in_flight": 0, "retrying": 0,
        "arrived": 0, "done": 0, "spent": {}, "oldest_s": 30.0, "grew": pending, "since_ms": ms(0), "consumers": 2,
        "entries": 5, "lane": name, "published": pending, "live": True,
    }  # fmt: skip
    return given | fields


def service(seconds: float, high: int, low: int, **fields: Any) -> dict[str, Any]:
    """So much was granted, while both tiers had a backlog."""
    given: dict[str, Any] = {
        "at_ms": ms(seconds), "every_s": 10.0, "epoch": "e", "capacity": 100, "sharing": "tasks", "caps": {},
        "app_weights": {}, "paused_channels": [], "measured_every_s": 10, "workers": 2,
        "tiers": tiers({"high": high, "low": low}, {"high": 1, "low": 1}, cap=100),
    }  # fmt: skip
    return given | fields


OVER_TIME: list[Mapping[str, Any]] = [
    *(
        {"dimension": dimension, "name": name, "at_ms": at_ms, "backlog": backlog}
        for dimension, name, levels in [
            ("tier", "high", (400, 900, 1_200)),
            ("tier", "low", (1_000, 700, 900)),
            ("app", "shop", (1_400, 1_300, 1_800)),
            ("channel", "push", (1_400, 1_300, 1_800)),
        ]
        for at_ms, backlog in zip(GRID, levels, strict=True)
    ),
    {"dimension": "app", "name": "news", "at_ms": ms(20), "backlog": 300},
]
FACTS = Facts(
    times=Times(all=GRID, chosen=GRID, grid=GRID, heat=GRID, recent_ms=ms(0), last_ms=ms(20)),
    service=[service(0, 0, 0), service(10, 600, 200), service(20, 1_200, 400)],
    groups=[
        group("high", "shop", "push", tasks=1, backlog=1_200, arrived=2_000, done=1_200),
        group("low", "shop", "push", tasks=1, backlog=600, arrived=0, done=400),
        group("low", "news", "mail", tasks=1, backlog=300, arrived=300),
    ],
    live=[
        live("h", "high", 1_200, done=1_200, arrived=2_000, spent={"cap_total": 15_000, "tier_share": 5_000}),
        live("l", "low", 600, done=400, oldest_s=3_000.0, spent={"tier_share": 10_000, "cap:channel/push": 5_000}),
        live("p", "low", 300, app="news", channel="mail", state="paused", held_by="paused", grew=0),
    ],
    over_time=OVER_TIME,
    heat=[{"at_ms": ms(20), "band": 1, "targets": 1_500}, {"at_ms": ms(20), "band": 4, "targets": 600}],
    skewed=[{"lane": "l", "partitions": 4, "entries": 100, "most": 70, "partition": 2, "times": 2.8, "consumers": 1}],
    journal=JournalFacts(
        asked=JournalQuery(first_ms=ms(0), step_ms=10_000, tiers={}, tasks=["h"]),
        rows=200,
        names=[
            {"dimension": "tier", "name": "high", "bucket": 0, "done": 100, "sent": 90, "lost": 10, "retried": 5},
            {"dimension": "tier", "name": "low", "bucket": 40, "done": 100, "sent": 100, "lost": 0, "retried": 0},
            {"dimension": "app", "name": "shop", "bucket": 40, "done": 200, "sent": 190, "lost": 10, "retried": 5},
        ],
        tasks=[{"task": "h", "bucket": 0, "done": 100, "sent": 90, "lost": 10, "retried": 5}],
        by_time=[
            {"bin": 0, "app": "shop", "bucket": 4, "done": 10},
            {"bin": 2, "app": "shop", "bucket": 8, "done": 10},
        ],
    ),
)


@pytest.fixture
def made() -> BacklogReport:
    return report_of(FACTS, OPTIONS, ms(25))


def test_rates_are_of_late_and_the_drain_is_backlog_by_rate(made: BacklogReport) -> None:
    total = made.total
    assert (total.backlog, total.tasks, total.held) == (2_100, 3, 300)
    assert (total.arrival_rate, total.service_rate, total.drain_s) == (115.0, 80.0, 26.25)
    assert made.growing
    assert [(one.name, one.backlog, one.service_rate, one.drain_s) for one in made.tiers] == [
        ("high", 1_200, 60.0, 20.0),
        ("low", 900, 20.0, 45.0),
    ]
    assert [(one.name, one.drain_s) for one in made.apps] == [("shop", 22.5), ("news", None)]


def test_the_end_is_foreseen_at_the_present_rate_and_at_a_capacity(made: BacklogReport) -> None:
    """80/s as 6:1 are 68.6 and 11.4, so high is done after 17.5 s and low has 400 left for 80/s: 22.5 s in all. The
    capacity that is set, 100/s, takes 18 s."""
    ends = {one.task: (one.done_s, one.done_at_capacity_s) for one in made.tasks}
    assert ends["h"] == pytest.approx((17.5, 14.0))
    assert ends["l"] == pytest.approx((22.5, 18.0))
    assert ends["p"] == (None, None)
    assert made.total.done_s == pytest.approx(22.5)
    asked = report_of(FACTS, replace(OPTIONS, capacity=900), ms(25))
    assert asked.total.done_at_capacity_s == pytest.approx(2.0)
    assert asked.service.asked_capacity == 900


SCHEDULED = live("s", "low", 8, state="scheduled", held_by="scheduled", start_ms=ms(20 + 32 * 60), oldest_s=None)
LATER = FACTS._replace(
    live=[*FACTS.live, SCHEDULED], groups=[*FACTS.groups, group("low", "shop", "push", tasks=1, backlog=8)]
)


def test_the_headline_is_never_that_of_a_scheduled_task() -> None:
    """8 of 2,108 targets start in 32 min, which has nothing to do with the rate."""
    made = report_of(LATER, OPTIONS, ms(25))
    assert (made.total.done_s, made.total.done_at_capacity_s) == pytest.approx((22.5, 18.0))
    assert "32 min" not in page(made)


def test_what_is_scheduled_is_not_waiting_and_is_not_sent_in_no_time() -> None:
    made = report_of(LATER, OPTIONS, ms(25))
    rows = dict(sections(made))["By age"]
    assert list(rows[-1].values()) == ["scheduled for later", "8", "-"]
    assert [band.backlog for band in made.ages if band.backlog] == [1_500, 600]
    assert span(8 / 200) == "< 0.1 s"


def test_nothing_is_foreseen_where_all_is_held() -> None:
    held = FACTS._replace(live=[SCHEDULED], groups=[group("low", "shop", "push", tasks=1, backlog=8, done=400)])
    made = report_of(held, OPTIONS, ms(25))
    assert "None of it may be sent now." in list(sentences(made))
    assert "<dt>done at this rate in</dt><dd>-</dd>" in page(made)
    assert {row["done in"] for title in ("Tiers", "Apps") for row in dict(sections(made))[title]} == {"-"}


def test_without_a_rate_nothing_is_promised() -> None:
    idle = FACTS._replace(
        groups=[group("high", "shop", "push", tasks=1, backlog=1_200)], live=[live("h", "high", 1_200)]
    )
    made = report_of(idle, OPTIONS, ms(25))
    assert (made.total.drain_s, made.total.done_s) == (None, None)
    single = report_of(FACTS._replace(times=FACTS.times._replace(recent_ms=ms(20))), OPTIONS, ms(25))
    assert (single.recent_s, single.total.service_rate) == (0.0, 0.0)


def test_without_any_capacity_no_end_is_shown_for_it() -> None:
    """It said `never` of everything."""
    unlimited = FACTS._replace(service=[{**one, "capacity": 0} for one in FACTS.service])
    rows = [row for _, found in sections(report_of(unlimited, OPTIONS, ms(25)))[:4] for row in found]
    assert {row["done at capacity"] for row in rows} == {"-"}


def test_ages_are_drained_the_oldest_first(made: BacklogReport) -> None:
    bands = [(one.label, one.backlog, one.drain_s) for one in made.ages if one.backlog]
    assert bands == [("10 s to 1 min", 1_500, 26.25), ("15 min to 1 h", 600, 7.5)]
    assert made.total.oldest_s == 3_000.0
    assert len(made.ages) == len(age_bands({}, 1.0)) == 8


def test_what_holds_a_task_back_adds_up_to_the_time_of_late(made: BacklogReport) -> None:
    held = {one.task: one.held_back for one in made.tasks}
    assert held == {
        "h": {"share": 1.0},
        "l": {"share": 0.5, "cap": 0.25, "unknown": 0.25},
        "p": {"held": 1.0},
    }
    assert made.total.held_back == pytest.approx(
        {"share": 1_500 / 2_100, "held": 300 / 2_100, "cap": 150 / 2_100, "unknown": 150 / 2_100}
    )


def test_causes_that_were_counted_for_longer_than_the_time_are_cut_in_proportion() -> None:
    assert grouped({"task_cap": 30_000, "retry_wait": 10_000}, held=False, window_ms=20_000) == {
        "cap": 0.75,
        "retries": 0.25,
    }
    assert grouped({"sending": 500, "no_worker": 0}, held=False, window_ms=1_000) == {"provider": 0.5, "unknown": 0.5}
    assert mixed([]) == {}
    assert MEANINGS.keys() == ADVICE.keys() == CAUSE_COLOURS.keys()


def test_what_grew_most_comes_first_and_since_it_last_was_so_small(made: BacklogReport) -> None:
    grew = [(one.dimension, one.name, one.grew, one.since_ms) for one in made.grew]
    assert grew[:3] == [("task", "h", 1_200, ms(0)), ("tier", "high", 800, ms(0)), ("task", "l", 600, ms(0))]
    assert ("app", "news", 300, ms(10)) in grew
    assert ("tier", "low", 200, ms(10)) in grew
    assert all(one.name != "p" for one in made.grew)


def test_shares_wanted_and_got_in_every_pool() -> None:
    capped = service(20, 1_200, 400)
    capped["tiers"] = [*capped["tiers"], *tiers({}, {"high": 5, "low": 5}, pool="channel/push", cap=50)]
    made = report_of(FACTS._replace(service=[*FACTS.service[:2], capped]), OPTIONS, ms(25))
    got = {(one.pool, one.tier): (round(one.wanted, 4), one.got, one.done) for one in made.shares}
    assert got["total", "high"] == (0.8571, 0.75, 1_200)
    assert got["channel/push", "low"] == (0.1429, 0.25, 400)
    assert made.series.got["high"] == [None, 0.75, 0.75]


def test_where_the_view_was_made_anew_nothing_is_known_of_rates() -> None:
    looks: list[Mapping[str, Any]] = [
        service(0, 600, 200),
        service(10, 5, 5, epoch="f"),
        service(20, 65, 25, epoch="f"),
    ]
    series = report_of(FACTS._replace(service=looks), OPTIONS, ms(25)).series
    assert series.service == [None, None, 8.0]
    assert series.got["high"] == [None, None, 0.75]


def test_what_arrived_is_what_the_backlog_grew_by_and_what_was_sent(made: BacklogReport) -> None:
    assert made.series.service == [None, 80.0, 80.0]
    assert made.series.arrival == [None, 100.0, 130.0]


def test_a_missed_snapshot_is_a_gap() -> None:
    times = FACTS.times._replace(all=[ms(0), ms(10), ms(35), ms(61)])
    gaps = report_of(FACTS._replace(times=times), OPTIONS, ms(65)).gaps
    assert [(gap.from_ms, gap.until_ms) for gap in gaps] == [(ms(35), ms(61))]


def test_the_journal_tells_waits_retries_and_losses(made: BacklogReport) -> None:
    assert made.total.waits is not None
    assert (made.total.waits.done, made.total.waits.lost, made.total.waits.retried) == (200, 0.05, 0.025)
    high = made.tiers[0].waits
    assert high is not None
    assert (high.done, high.lost) == (100, 0.1)
    assert made.series.waits_p95_s["shop"] == [pytest.approx(0.00138, abs=1e-5), None, pytest.approx(0.00376, abs=1e-5)]
    assert report_of(FACTS._replace(journal=None), OPTIONS, ms(25)).total.waits is None


def test_it_is_said_in_sentences_and_tables(made: BacklogReport) -> None:
    message = " ".join(sentences(made))
    assert "2,100 targets of 3 tasks, 300 of them paused, scheduled or held" in message
    assert "115 targets/s arrived and 80 were sent (the capacity is 100), by 2 workers" in message
    assert (
        "At the present rate it is sent in 22 s, at 100 targets/s in 18 s, if nothing more comes. More targets arrive"
        in message
    )
    assert "What holds it back most: share" in message
    tables = dict(sections(made))
    assert [row["task"] for row in tables["Tasks with the largest backlog"]] == ["h", "l", "p"]
    assert [row["held back by"] for row in tables["Apps"]] == ["share 83%, cap 8%", "held 100%"]
    assert tables["Skewed partitions"][0]["times the mean"] == "2.8"


def test_without_a_backlog_it_says_so() -> None:
    empty = FACTS._replace(groups=[], live=[], over_time=[], heat=[], skewed=[], journal=None)
    made = report_of(empty, OPTIONS, ms(25))
    assert next(sentences(made)).endswith("0 targets of 0 tasks.")
    assert "<h2>Backlog over time</h2>" in page(made)
    assert msgspec.json.decode(msgspec.json.encode(made), type=BacklogReport) == made


@pytest.mark.parametrize(
    ("seconds", "message"),
    [(0, "0 s"), (1.25, "1.2 s"), (45, "45 s"), (60, "1 min"), (3_599, "60 min"), (3_600, "1 h"), (None, "never"),
     (86_400 * 2.5, "2.5 d")],
)  # fmt: skip
def test_spans_in_words(seconds: float | None, message: str) -> None:
    assert span(seconds) == message


@pytest.mark.parametrize(
    ("seconds", "message"),
    [
        (0, "2026-03-04 12:00:00 UTC"),
        (42, "2026-03-04 12:00:00 to 12:00:42 UTC (42 s)"),
        (3 * 3_600, "2026-03-04 12:00 to 15:00 UTC (3 h)"),
        (86_400, "2026-03-04 12:00 to 2026-03-05 12:00 UTC (24 h)"),
    ],
)
def test_a_period_is_never_from_a_minute_to_the_same_minute(seconds: float, message: str) -> None:
    assert period(ms(0), ms(seconds)) == message


# ----------------------------------------------------------------- the page


def test_what_is_held_and_what_is_unknown_have_colours_and_names_of_their_own(made: BacklogReport) -> None:
    assert len(set(CAUSE_COLOURS.values())) == len(CAUSE_COLOURS)
    picture = backlog_pictures.causes(made)
    names = re.findall(r'<rect class="(c\d)"[^>]*rx="2"/>\n<text[^>]*>([^<]+)<', picture)
    assert dict(map(reversed, names)) == {
        cause: f"c{CAUSE_COLOURS[cause]}" for cause in ("share", "cap", "unknown", "held")
    }


def test_the_legend_has_room_for_every_cause() -> None:
    names = [(cause, colour) for cause, colour in CAUSE_COLOURS.items()]
    shown = "".join(legend(names, "part of the recent time"))
    assert not [cause for cause in CAUSE_COLOURS if f">{cause}<" not in shown]


def test_tables_fit_a_screen_and_no_name_is_broken(made: BacklogReport) -> None:
    """By characters: 7.3 px each at the size of tables, and 12 px between columns, in 1,280 px."""
    for title, rows in sections(made):
        columns = [max(len(name), *(len(row[name]) for row in rows)) for name in rows[0]] if rows else []
        assert sum(min(wide, 60) * 7.3 + 12 for wide in columns) < 1_240, title
    shown = page(made)
    assert "<td>shop</td>" in shown
    assert "overflow-wrap" not in shown.replace("td.long{white-space:normal;overflow-wrap:anywhere;min-width:26ch}", "")
    assert "white-space:nowrap" in shown


def test_the_page_needs_nothing_else_and_tells_what_its_pictures_show(made: BacklogReport) -> None:
    text = page(made)
    assert text.startswith("<!doctype html>")
    without_names = text.replace('xmlns="http://www.w3.org/2000/svg"', "")
    assert not [sign for sign in ("http", "<script", "<link", "@import", "url(", "src=") if sign in without_names]
    assert text.count("<svg") == text.count("<desc") == 6
    for reported in ("high 1,200, low 900", "The wait that 95 %", "high wanted 86%, got 75%", "each further attempt"):
        assert reported in text
    assert text.count('scope="col"') > 20


def test_pictures_are_well_formed_and_no_text_breaks_out() -> None:
    from xml.etree import ElementTree

    evil = "</svg><script>&"
    facts = FACTS._replace(
        groups=[{**one, "app": evil} for one in FACTS.groups], live=[{**one, "app": evil} for one in FACTS.live]
    )
    made = report_of(facts, OPTIONS, ms(25))
    for draw in ("backlog", "rates", "causes", "shares", "waits", "ages"):
        ElementTree.fromstring(getattr(backlog_pictures, draw)(made))
    assert "<script>" not in page(made)


def test_time_axes_have_round_times() -> None:
    hour = 3_600_000
    noon = START_MS
    assert [label for _, label in time_ticks(noon + 60_000, noon + 2 * hour)] == [
        "12:15", "12:30", "12:45", "13:00", "13:15", "13:30", "13:45", "14:00",
    ]  # fmt: skip
    assert [label for _, label in time_ticks(noon, noon + 24 * hour)] == [
        "12:00", "15:00", "18:00", "21:00", "05 Mar", "03:00", "06:00", "09:00", "12:00",
    ]  # fmt: skip
    assert [short(number) for number in (7, 1_234, 5_600_000)] == ["7", "1.23k", "5.6M"]
