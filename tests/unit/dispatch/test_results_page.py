"""benchmarks/RESULTS.md: it is made of the stored figures, and shows only those that count."""

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

from benchmarks.results import measures
from benchmarks.results.page import HERE, PAGE, Page, number
from benchmarks.results.spread import spread

MACHINE = {"cores": 2, "cpu": "some", "memory_gib": 24.0, "system": "Linux", "python": "3.11"}


def measured(median: float, *, commit: str = "new", apart: bool = False) -> dict[str, Any]:
    figures = {"p50_ms": {"median": median, "min": median - 1, "max": median + 1}}
    return {"command": "latency --runs 3", "date": "2026-11-28", "commit": commit, "apart": apart, "figures": figures}


def page_of(section: dict[str, Any], **entries: dict[str, Any]) -> str:
    document = {"date": "2026-11-28", "commit": "new", "machine": MACHINE, "measured": entries}
    return Page(document).text({"about": "{cores} cores.", "section": [{"title": "Latency", **section}]})


def test_the_page_and_its_pictures_are_made_of_the_stored_figures() -> None:
    page = Page(measures.load())
    assert PAGE.read_text("utf-8") == page.text()
    assert {file.stem: file.read_text("utf-8") for file in HERE.glob("*.svg")} == page.pictures


def test_the_page_names_figures_of_known_measures() -> None:
    text = (HERE / "page.toml").read_text("utf-8")
    named = {name for section in tomllib.loads(text)["section"] for name in references(section)}
    assert named == measures.COMMANDS.keys()


def references(section: dict[str, Any]) -> set[str]:
    lines = " ".join(section.get("lines", ()))
    rows = [*section.get("rows", ()), *section.get("grid", ())]
    rows += [row for picture in section.get("pictures", ()) for row in picture["rows"]]
    cells = [cell for _, *row in rows for cell in row] + [part.partition("}")[0] for part in lines.split("{")[1:]]
    return {cell.partition(":")[0] for cell in cells if ":" in cell}


def test_a_row_has_median_least_most_and_what_is_required() -> None:
    text = page_of({"unit": "ms", "rows": [["first", "latency:p50_ms", "at most 1500"]]}, latency=measured(43))
    assert "Measured on 2026-11-28 at commit `new`. 2 cores." in text
    assert "| first | 43 | 42 | 44 | at most 1,500 |" in text


@pytest.mark.parametrize(
    ("required", "cell"), [("at most 42", "**43**"), ("at least 44", "**43**"), ("at most 43", "43")]
)
def test_a_median_that_misses_what_is_required_is_bold(required: str, cell: str) -> None:
    text = page_of({"rows": [["first", "latency:p50_ms", required]]}, latency=measured(43))
    assert f"| first | {cell} | 42 |" in text


def test_figures_of_another_commit_are_left_out() -> None:
    section = {"rows": [["now", "now:p50_ms"], ["before", "before:p50_ms"]], "method": "…"}
    text = page_of(section, now=measured(1), before=measured(2, commit="old"))
    assert "| now |" in text
    assert "before" not in text


def test_a_measure_apart_is_shown_with_its_commit() -> None:
    section = {"rows": [["peers", "peers:p50_ms"]], "method": "…"}
    text = page_of(section, peers=measured(2, commit="old", apart=True))
    assert "| peers | 2 |" in text
    assert "- Measured at `old` (2026-11-28): `latency --runs 3`." in text


def test_lines_pictures_and_sections_without_figures_are_left_out() -> None:
    section = {
        "lines": ["- {latency:p50_ms} ms", "- {latency:p50_ms} of {gone:p50_ms}"],
        "grid": [["half", "latency:p50_ms", "gone:p50_ms"], ["none", "gone:p50_ms", "gone:p50_ms"]],
        "columns": ["", "one", "other"],
        "pictures": [{"name": "picture", "title": "Picture", "rows": [["gone", "gone:p50_ms"]]}],
    }
    text = page_of(section, latency=measured(43))
    assert "- 43 ms\n\n|  | one | other |\n|---|---|---|\n| half | 43 | - |\n" in text
    assert not any(word in text for word in (" of ", "none", "Picture"))
    assert "Latency" not in page_of(section)


def test_a_picture_has_a_bar_for_each_figure_and_its_words() -> None:
    page = Page({"date": "", "commit": "new", "machine": MACHINE, "measured": {"latency": measured(1_234.5)}})
    picture = {"name": "wait", "title": "Wait", "rows": [["Fairlane", "latency:p50_ms"], ["gone", "gone:p50_ms"]]}
    text = page.text({"about": "", "section": [{"title": "Latency", "pictures": [picture]}]})
    assert "![Wait: Fairlane 1,230](results/wait.svg)" in text
    assert page.pictures["wait"].count("<rect") == 2  # the ground and one bar


@pytest.mark.parametrize(
    ("value", "shown"),
    [(214_768, "215,000"), (0.00184, "0.00184"), (1.0, "1"), (99.96, "100"), (8.74, "8.74"), (0, "0")],
)
def test_a_number_has_three_digits_that_count(value: float, shown: str) -> None:
    assert number(value) == shown


def test_a_spread_joins_the_names_of_levels() -> None:
    of = {"median": 2, "min": 1, "max": 3}
    assert spread([{"a": 1}, {"a": 3, "b": 5}, {"a": 2}]) == {"a": of, "b": {"median": 5, "min": 5, "max": 5}}
    assert spread({"fsync": {"3": {"kafka": [1, 2, 3]}}, "memory": {"3": {"kafka": []}}}) == {"fsync 3 kafka": of}


@pytest.fixture
def stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two measures that answer at once, of which one fails, and one apart; the figures of earlier runs are stored."""
    good, bad = tmp_path / "good.py", tmp_path / "bad.py"
    good.write_text('print(\'{"runs": [{"p50_ms": 1}, {"p50_ms": 3}]}\')')
    bad.write_text("raise SystemExit(1)")
    all_measures, apart = {"good": str(good), "bad": str(bad)}, {"peers": str(good)}
    for name, value in (("MEASURES", all_measures), ("APART", apart), ("COMMANDS", all_measures | apart)):
        monkeypatch.setattr(measures, name, value)
    monkeypatch.setattr(measures, "_commit", lambda: "new")
    file = tmp_path / "results.json"
    monkeypatch.setattr(measures, "RESULTS", file)
    earlier = {name: measured(9, commit="old", apart=name == "peers") for name in ("good", "bad", "peers", "gone")}
    file.write_text(json.dumps({"commit": "old", "machine": MACHINE, "measured": earlier}))
    return file


def test_a_whole_run_keeps_nothing_of_earlier_ones_but_what_is_apart(stored: Path) -> None:
    assert measures.measure_all([]) == ["bad"]
    document = json.loads(stored.read_text())
    assert document["commit"] == "new"
    assert {name: entry["commit"] for name, entry in document["measured"].items()} == {"peers": "old", "good": "new"}
    assert document["measured"]["good"]["figures"] == {"p50_ms": {"median": 2, "min": 1, "max": 3}}


def test_a_named_measure_is_merged_into_the_stored_ones(stored: Path) -> None:
    assert measures.measure_all(["good"]) == []
    commits = {name: entry["commit"] for name, entry in json.loads(stored.read_text())["measured"].items()}
    assert commits == {"good": "new", "bad": "old", "peers": "old", "gone": "old"}


def test_a_measure_apart_leaves_the_commit_of_the_page(stored: Path) -> None:
    assert measures.measure_all(["peers"]) == []
    document = json.loads(stored.read_text())
    assert (document["commit"], document["measured"]["peers"]["commit"]) == ("old", "new")
