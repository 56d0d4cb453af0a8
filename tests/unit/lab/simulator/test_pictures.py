"""Pictures and the page: well-formed, self-contained, with their content in words."""

import re
import xml.etree.ElementTree as ElementTree
from itertools import pairwise

import msgspec
import pytest

from fairlane.pages.picture import RIGHT, WIDTH, legend, tick
from lab.simulator.findings.figures import result_of
from lab.simulator.findings.result import GapFigure, Result
from lab.simulator.run.run import SimulatedRun
from lab.simulator.scenario.library import check
from lab.simulator.show.page import page
from lab.simulator.show.pictures import draw

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def result() -> Result:
    tasks = [
        {"name": "big", "tier": "high", "targets": 1_000, "chunk": 10},
        {"name": "many", "tier": "low", "targets": 100, "chunk": 5, "count": 50, "arrives_s": 1},
    ]
    chosen = check(
        {"name": "a<b", "about": "5 > 4", "duration_s": 3.2, "capacity": 500, "tasks": tasks, "workers": [{"count": 2}]}
    )
    return result_of(SimulatedRun(chosen, 1).go())


@pytest.mark.parametrize("kind", ["shares", "tasks", "task-shares"])
def test_a_picture_is_well_formed_and_told_in_words(result: Result, kind: str) -> None:
    root = ElementTree.fromstring(draw(kind, result))
    title, words = root.find(f"{SVG}title"), root.find(f"{SVG}desc")
    assert title is not None
    assert words is not None
    assert root.attrib["aria-labelledby"] == f"{title.attrib['id']} {words.attrib['id']}"
    assert (title.text or "").startswith("a<b: ")
    assert "high" in (words.text or "") or "big" in (words.text or "")
    assert "prefers-color-scheme:dark" in draw(kind, result)


def test_the_layers_of_a_stacked_picture_add_up_to_what_was_sent(result: Result) -> None:
    root = ElementTree.fromstring(draw("shares", result))
    layers = [path.attrib["d"] for path in root.iter(f"{SVG}path") if path.attrib["class"] in ("c0", "c2")]
    tops = [[float(y) for y in re.findall(r"[\d.]+ ([\d.]+)", layer)][:6:2] for layer in layers]
    dashed = next(path for path in root.iter(f"{SVG}path") if path.attrib["class"] == "mark")
    capacity_y = float(re.findall(r"M\d+ ([\d.]+)H", dashed.attrib["d"])[0])
    assert tops[1][1] == pytest.approx(capacity_y, abs=12), "both tiers together are the capacity"
    assert tops[0][1] > tops[1][1] + 10


def test_more_tasks_than_rows_are_counted(result: Result) -> None:
    root = ElementTree.fromstring(draw("tasks", result))
    texts = [text.text for text in root.iter(f"{SVG}text")]
    assert "and 11 more" in texts
    assert "big" in texts


def test_names_stay_within_a_picture_and_do_not_lie_on_each_other() -> None:
    names = [(f"news-a-very-long-campaign-{place}", place) for place in range(8)]
    root = ElementTree.fromstring(f"<svg>{''.join(legend(names, 'targets sent a second'))}</svg>")
    unit, *shown = list(root.iter("text"))
    assert len({text.text for text in shown}) == 8, "the ends of the names tell them apart"
    lines: dict[str, list[tuple[float, float]]] = {}
    for text in shown:
        left = float(text.attrib["x"])
        lines.setdefault(text.attrib["y"], []).append((left, left + 7.4 * len(text.text or "")))
    lines[unit.attrib["y"]].append((WIDTH - RIGHT - 7 * len(unit.text or ""), WIDTH - RIGHT))
    for spans in lines.values():
        assert all(right < left for (_, right), (left, _) in pairwise(spans))
        assert spans[-1][1] < WIDTH


def test_the_last_time_of_an_axis_is_not_cut_off(result: Result) -> None:
    (mark, label) = tick(WIDTH - RIGHT, 100, "1000000 s")
    assert 'text-anchor="end"' in label
    assert f"M{WIDTH - RIGHT}" in mark


def test_a_gap_above_the_bound_of_one_worker_is_explained(result: Result) -> None:
    """Under a headline that says that everything held."""
    gap = GapFigure(150, 120.0, 1.0)
    tiers = {name: msgspec.structs.replace(tier, longest_gap=gap) for name, tier in result.tiers.items()}
    found = page(msgspec.structs.replace(result, tiers=tiers))
    assert "bound for 1 worker" in found
    assert "The longest gap may exceed its bound" in found
    alone = msgspec.structs.replace(result, tiers=tiers, workers={**result.workers, "joined": 1})
    assert "The longest gap may exceed" not in page(alone)
    below = {name: msgspec.structs.replace(tier, longest_gap=None) for name, tier in result.tiers.items()}
    assert "The longest gap may exceed" not in page(msgspec.structs.replace(result, tiers=below))


def test_the_page_needs_nothing_from_outside(result: Result) -> None:
    text = page(result)
    assert "<script" not in text
    assert not re.search(r"(?:src|href)=|url\(|@import", text)
    assert "a&lt;b" in text
    assert "a<b" not in text
    assert text.count("<svg") == 2
    assert "fairlane simulate" in text
