"""The report on the backlog, made of collected facts."""

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import msgspec
import pytest

pytest.importorskip("pyarrow")

from fairlane.pages.picture import short, time_ticks
from spark_jobs.backlog.causes import ADVICE, MEANINGS, fractions, grouped
from spark_jobs.backlog.job import report_of
from spark_jobs.backlog.page import AGE, NOW, page, period, sections, sentences
from spark_jobs.backlog.report import BacklogReport, age_bands, span
from tests.unit.spark_jobs.backlog_facts import FACTS, OPTIONS, group, live, service, waited
from tests.unit.spark_jobs.backlog_rows import START_MS, ms


@pytest.fixture
def made() -> BacklogReport:
    return report_of(FACTS, OPTIONS, ms(25))


def test_rates_are_those_of_the_recent_time(made: BacklogReport) -> None:
    total = made.total
    assert (total.backlog, total.tasks, total.held) == (2_100, 3, 300)
    assert (total.arrival_rate, total.service_rate) == (115.0, 80.0)
    assert made.growing
    assert [(one.name, one.backlog, one.service_rate) for one in made.tiers] == [
        ("high", 1_200, 60.0),
        ("low", 900, 20.0),
    ]


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


SCHEDULED = live("s", "low", 8, state="scheduled", held="scheduled", start_ms=ms(20 + 32 * 60), oldest_s=None)
LATER = FACTS._replace(
    tasks=[*FACTS.tasks, SCHEDULED], groups=[*FACTS.groups, group("low", "shop", "push", tasks=1, backlog=8)]
)


def test_the_headline_is_never_that_of_a_scheduled_task() -> None:
    """8 of 2,108 targets start in 32 min, which has nothing to do with the rate."""
    made = report_of(LATER, OPTIONS, ms(25))
    assert (made.total.done_s, made.total.done_at_capacity_s) == pytest.approx((22.5, 18.0))
    assert "32 min" not in page(made)


def test_what_is_scheduled_is_not_waiting_and_is_not_sent_in_no_time() -> None:
    made = report_of(LATER, OPTIONS, ms(25))
    rows = dict(sections(made))[AGE]
    assert list(rows[-1].values()) == ["scheduled for later", "8", "-"]
    assert [band.backlog for band in made.ages if band.backlog] == [1_500, 600]


def test_nothing_is_foreseen_where_all_is_held() -> None:
    held = FACTS._replace(tasks=[SCHEDULED], groups=[group("low", "shop", "push", tasks=1, backlog=8, done=400)])
    made = report_of(held, OPTIONS, ms(25))
    assert "None of it may be sent now." in list(sentences(made))
    assert "<dt>done at this rate in</dt><dd>-</dd>" in page(made)
    assert {row["done in"] for row in dict(sections(made))[NOW]} == {"-"}


def test_without_a_rate_nothing_is_promised() -> None:
    idle = FACTS._replace(
        groups=[group("high", "shop", "push", tasks=1, backlog=1_200)], tasks=[live("h", "high", 1_200)]
    )
    made = report_of(idle, OPTIONS, ms(25))
    assert made.total.done_s is None
    single = report_of(FACTS._replace(times=FACTS.times._replace(recent_ms=ms(20))), OPTIONS, ms(25))
    assert (single.recent_s, single.total.service_rate) == (0.0, 0.0)


def test_without_any_capacity_no_end_is_shown_for_it() -> None:
    """It said `never` of everything."""
    unlimited = FACTS._replace(service=[{**one, "capacity": 0} for one in FACTS.service])
    rows = dict(sections(report_of(unlimited, OPTIONS, ms(25))))[NOW]
    assert {row["done at capacity"] for row in rows} == {"-"}


def test_ages_are_drained_the_oldest_first(made: BacklogReport) -> None:
    bands = [(one.label, one.backlog, one.drain_s) for one in made.ages if one.backlog]
    assert bands == [("10 s to 1 min", 1_500, 26.25), ("15 min to 1 h", 600, 7.5)]
    assert made.total.oldest_s == 3_000.0
    assert len(made.ages) == len(age_bands({}, 1.0)) == 8


def test_waiting_is_blamed_in_proportion_to_the_time_counted_for_each_cause(made: BacklogReport) -> None:
    """Time without a counted cause is unknown. A paused task is held, whatever was counted."""
    assert {one.task: one.held_back for one in made.tasks} == {
        "h": {"share": 1.0},
        "l": {"share": 0.5, "cap": 0.25, "unknown": 0.25},
        "p": {"held": 1.0},
        "e": {"no workers": 1.0},
    }
    assert made.total.held_back == pytest.approx({"share": 4 / 6, "held": 1 / 6, "cap": 0.5 / 6, "unknown": 0.5 / 6})


@pytest.mark.parametrize("held", ["no_worker_runs", "no_channel"])
def test_a_task_waits_for_workers_while_none_can_send_it(held: str) -> None:
    """Then it is not held, and its forecast says when it is done once they run."""
    tasks: list[Mapping[str, Any]] = [live("h", "high", 1_200, done=1_200, held=held)]
    made = report_of(FACTS._replace(tasks=tasks, waited=[waited("h", "high", 3.0, held)]), OPTIONS, ms(25))
    assert made.total.held_back == {"no workers": 1.0}
    assert (made.total.held, made.total.done_s) == (0, 15.0)


def test_tasks_that_have_ended_are_among_those_that_waited_most(made: BacklogReport) -> None:
    assert [(one.task, one.target_hours, one.ended_ms) for one in made.tasks] == [
        ("e", 9.0, ms(9)), ("h", 3.0, None), ("l", 2.0, None), ("p", 1.0, None),
    ]  # fmt: skip
    assert (made.tasks[0].begun_ms, made.tasks[0].targets) == (ms(-60), 70)


def test_waiting_of_an_app_is_the_mean_of_each_time_span(made: BacklogReport) -> None:
    assert made.series.waiting.keys() == {"shop", "news"}
    shop = {cause: [round(level) for level in levels] for cause, levels in made.series.waiting["shop"].items()}
    assert shop == {"no workers": [3_240, 0], "share": [0, 1_440], "cap": [0, 180], "unknown": [0, 180]}


def test_causes_that_were_counted_for_longer_than_the_time_are_cut_in_proportion() -> None:
    assert grouped({"task_cap": 30_000, "retry_wait": 10_000}, 20_000) == {"cap": 0.75, "retries": 0.25}
    assert grouped({"sending": 500, "no_worker": 0}, 1_000) == {"provider": 0.5, "unknown": 0.5}
    assert fractions({}) == {}
    assert MEANINGS.keys() == ADVICE.keys()


def test_shares_wanted_and_got(made: BacklogReport) -> None:
    assert made.series.got["high"] == [None, 0.75, 0.75]
    assert made.series.wanted["low"] == pytest.approx([1 / 7] * 3)


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
    assert made.series.waits_p95_s["shop"] == [pytest.approx(0.00138, abs=1e-5), None]
    assert report_of(FACTS._replace(journal=None), OPTIONS, ms(25)).total.waits is None


def test_it_is_said_in_sentences_and_tables(made: BacklogReport) -> None:
    message = " ".join(sentences(made))
    assert "2,100 targets of 3 tasks waited at 2026-03-04 12:00 UTC, 300 of them paused, scheduled or held" in message
    assert "115 targets/s arrived and 80 were sent (the capacity is 100), by 2 workers" in message
    assert (
        "At the present rate it is sent in 22 s, at 100 targets/s in 18 s, if nothing more comes. More targets arrive"
        in message
    )
    assert "What holds it back most: share" in message
    tables = dict(sections(made))
    assert [row["task"] for row in tables["Tasks that waited most"]] == ["e", "h", "l", "p"]
    held_back = {row["what"]: row["held back by"] for row in tables[NOW]}
    assert (held_back["app shop"], held_back["app news"]) == ("share 80%, cap 10%", "held 100%")


def test_without_a_backlog_it_says_so() -> None:
    empty = FACTS._replace(groups=[], tasks=[], tiers=[], ages=[], waited=[], spent=[], journal=None)
    made = report_of(empty, OPTIONS, ms(25))
    assert next(sentences(made)).startswith("0 targets of 0 tasks waited")
    assert "<h2>How much waited?</h2>" in page(made)
    assert msgspec.json.decode(msgspec.json.encode(made), type=BacklogReport) == made


@pytest.mark.parametrize(
    ("seconds", "message"),
    [(0, "0 s"), (0.0001, "1 ms"), (0.25, "250 ms"), (1.25, "1.2 s"),
     (45, "45 s"), (60, "1 min"), (3_599, "60 min"), (3_600, "1 h"), (None, "never"),
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


def test_each_picture_answers_the_question_above_it(made: BacklogReport) -> None:
    questions = re.findall("<h2>(.*?)</h2>", page(made))
    assert len(questions) <= 10
    assert all(question.endswith("?") for question in questions)


def test_the_page_needs_nothing_else(made: BacklogReport) -> None:
    text = page(made)
    assert text.startswith("<!doctype html>")
    assert not [sign for sign in ("http", "<script", "<link", "@import", "url(", "src=") if sign in text]


def test_pictures_are_well_formed_and_no_text_breaks_out() -> None:
    from xml.etree import ElementTree

    evil = "</svg><script>&"
    facts = FACTS._replace(
        groups=[{**one, "app": evil} for one in FACTS.groups],
        tasks=[{**one, "app": evil, "task": evil} for one in FACTS.tasks],
        waited=[{**one, "app": evil, "task": evil} for one in FACTS.waited],
    )
    text = page(report_of(facts, OPTIONS, ms(25)))
    assert "<script>" not in text
    for section in re.findall("<section>.*?</section>", text, re.DOTALL):
        ElementTree.fromstring(section.replace("<br>", "<br/>"))


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
