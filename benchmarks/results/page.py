"""Makes the page of results from its sections (`page.toml`) and the figures.

Sections name a figure by its measure: `latency:p50_ms`. What was not measured is left out: a row, a line of text or a
section without figures. A figure counts if it is of the commit of the page, or of a measure apart, whose commit the
section names.
"""

import operator
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.results.bars import bars
from benchmarks.results.measures import ROOT, load

PAGE = ROOT / "benchmarks" / "RESULTS.md"
HERE = Path(__file__).parent
_IN_TEXT = re.compile(r"\{([^{}]+)\}")
_BOUNDS = {"at least": operator.ge, "at most": operator.le}
Section = Mapping[str, Any]


def write_page() -> None:
    """Write the page and its pictures."""
    page = Page(load())
    PAGE.write_text(page.text(), "utf-8")
    for earlier in HERE.glob("*.svg"):
        earlier.unlink()
    for name, picture in page.pictures.items():
        (HERE / f"{name}.svg").write_text(picture, "utf-8")


class Page:
    """The page of one document of figures."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        self._document = document
        self.pictures: dict[str, str] = {}
        """SVG by name, of the sections made so far."""
        self._used: dict[str, Any] = {}
        """The measures of the section that is being made."""

    def text(self, sections: Mapping[str, Any] | None = None) -> str:
        """Return the page as Markdown. sections: those of page.toml, unless given."""
        content = sections or tomllib.loads((HERE / "page.toml").read_text("utf-8"))
        parts = (self._section(section) for section in content["section"])
        return "\n\n".join(["# Results", self._about(content["about"]), *filter(None, parts)]) + "\n"

    def _about(self, about: str) -> str:
        machine, commit = self._document["machine"], self._document.get("commit")
        when = f"Measured on {self._document['date']} at commit `{commit}`. " if commit else ""
        return when + about.format(**machine)

    def _section(self, section: Section) -> str:
        """Return a section, or an empty text if it has no figures."""
        self._used = {}
        lines = [text for line in section.get("lines", ()) if (text := self._filled(line))]
        tables = [*map(self._picture, section.get("pictures", ())), self._table(section), self._grid(section)]
        blocks = ["\n".join(lines), *tables]
        if not any(blocks):
            return ""
        notes = [f"- {name.capitalize()}: {section[name]}" for name in ("method", "limit") if name in section]
        if notes:
            notes += self._commands()
        return "\n\n".join(filter(None, [f"## {section['title']}", *blocks, "\n".join(notes)]))

    def _filled(self, line: str) -> str:
        """Return a line with the medians of the figures that it names; an empty text if one was not measured."""
        spreads = [self._spread(reference) for reference in _IN_TEXT.findall(line)]
        return _IN_TEXT.sub(lambda found: self._median(found[1]), line) if all(spreads) else ""

    def _picture(self, picture: Section) -> str:
        rows = [(label, self._spread(reference)) for label, reference in picture["rows"]]
        values = [(label, found["median"]) for label, found in rows if found]
        if not values:
            return ""
        words = "; ".join(f"{label} {number(value)}" for label, value in values)
        self.pictures[picture["name"]] = bars(picture["name"], picture["title"], values, number)
        return f"![{picture['title']}: {words}](results/{picture['name']}.svg)"

    def _table(self, section: Section) -> str:
        """Return a table with a row for each figure: its median, least and most, and what is required."""
        rows = [self._row(*row) for row in section.get("rows", ())]
        return _markdown([section.get("unit", ""), "median", "least", "most", "required"], filter(None, rows))

    def _row(self, label: str, reference: str, required: str = "") -> list[str]:
        found = self._spread(reference)
        if not found:
            return []
        cells = [number(found[name]) if name in found else "-" for name in ("median", "min", "max")]
        bound, _, value = required.rpartition(" ")
        if bound and not _BOUNDS[bound](found["median"], float(value)):
            cells[0] = f"**{cells[0]}**"
        return [label, *cells, f"{bound} {number(float(value))}" if bound else ""]

    def _grid(self, section: Section) -> str:
        """Return a table of medians. A row without any is left out."""
        rows = [[label, *map(self._median, references)] for label, *references in section.get("grid", ())]
        return _markdown(section.get("columns", ()), (row for row in rows if set(row[1:]) != {"-"}))

    def _median(self, reference: str) -> str:
        found = self._spread(reference)
        return number(found["median"]) if found else "-"

    def _spread(self, reference: str) -> dict[str, float]:
        """Return the spread of a figure; nothing if it was not measured at a commit that counts."""
        name, _, figure = reference.partition(":")
        entry = self._document["measured"].get(name)
        if not entry or not (entry["apart"] or entry["commit"] == self._document.get("commit")):
            return {}
        self._used[name] = entry
        return dict(entry["figures"].get(figure, {}))

    def _commands(self) -> Iterator[str]:
        """Yield a line with the commands of the section for each commit, which it names unless it is the page's."""
        by_commit: dict[str, list[str]] = {}
        for entry in self._used.values():
            where = f" at `{entry['commit']}` ({entry['date']})" if entry["apart"] else ""
            by_commit.setdefault(where, []).append(f"`{entry['command']}`")
        yield from (f"- Measured{where}: {', '.join(commands)}." for where, commands in by_commit.items())


def _markdown(columns: Sequence[str], rows: Iterator[list[str]]) -> str:
    """Return a table, or an empty text if it has no rows."""
    lines = [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join([f"| {' | '.join(columns)} |", "|---" * len(columns) + "|", *lines]) if lines else ""


def number(value: float) -> str:
    """Return a number with three digits that count."""
    rounded = float(f"{value:.3g}")
    return f"{rounded:,.0f}" if abs(rounded) >= 100 or rounded == int(rounded) else f"{rounded:.3g}"
