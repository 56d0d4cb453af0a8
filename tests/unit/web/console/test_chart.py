"""The chart of the overview."""

import re

from tests.unit.dispatch.test_verdict import NOW_MS, task
from web.console.chart import SPAN_MS, chart, spark


def opacities(picture: str) -> list[str]:
    return re.findall(r'class="c0" opacity="([\d.]+)"', picture)


def test_chart_has_no_style_of_its_own_and_shows_ids_as_text() -> None:
    picture = chart([], (), NOW_MS, 10, [task("<b>", 60.0)])
    assert "<style" not in picture
    assert "<b>" not in picture


def test_chart_leaves_a_gap_where_nothing_was_kept() -> None:
    row = (5.0, 5.0, 5.0)
    whole = [(NOW_MS - 20_000, row), (NOW_MS - 10_000, row)]
    assert len(opacities(chart(whole, (), NOW_MS, 0, []))) == 1
    assert len(opacities(chart([(NOW_MS - 600_000, row), *whole], (), NOW_MS, 0, []))) == 2


def test_chart_draws_one_point_for_half_a_minute() -> None:
    rows = [(NOW_MS - 1_000 * second, (1.0, 0.0, 0.0)) for second in range(600, 0, -10)]
    [path] = re.findall(r'class="c0" [^>]*d="([^"]+)"', chart(rows, (), NOW_MS, 0, []))
    assert path.count("L") + 1 == 2 * 21  # there and back, with the newest row


def test_chart_shows_the_forecast_paler_from_now_on() -> None:
    picture = chart([(NOW_MS, (0.0, 0.0, 0.0))], [(-5.0, {"high": 4.0}), (60.0, {})], NOW_MS, 0, [])
    assert opacities(picture) == ["0.75", "0.3"]


def test_chart_shows_a_burst_that_stands_alone() -> None:
    [path] = re.findall(r'class="c0" [^>]*d="([^"]+)"', chart([(NOW_MS - 60_000, (9.0, 0.0, 0.0))], (), NOW_MS, 0, []))
    places = {float(point) for point in re.findall(r"[ML]([\d.]+)", path)}
    assert len(places) == 2


def test_course_of_a_figure_is_drawn_with_some_thirty_points() -> None:
    def points(values: list[float]) -> list[str]:
        return re.findall(r"[\d.]+,[\d.]+", spark(values))

    assert points([]) == []
    assert points([0.0, 5.0]) == ["0,22.0", "84,2.0"]
    assert len(points([1.0] * 180)) == 30


def test_chart_marks_the_ends_of_tasks_within_its_span() -> None:
    picture = chart([], (), NOW_MS, 0, [task("soon", 60.0), task("late", SPAN_MS / 1000 + 1)])
    assert "soon in 1 m 00 s" in picture
    assert "late" not in picture
