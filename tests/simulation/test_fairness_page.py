"""docs/fairness.md: its pictures are what the commands below them make, and its example works."""

import re
from pathlib import Path

from lab.simulator.findings.figures import result_of
from lab.simulator.run.many import run_one
from lab.simulator.run.run import SimulatedRun
from lab.simulator.scenario.library import parse
from lab.simulator.show.pictures import draw

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "fairness.md").read_text(encoding="utf-8")
PICTURE = re.compile(
    r"!\[[^]]+\]\((pictures/([\w-]+)\.svg)\)\n\n```\nfairlane simulate \2 --picture ([\w-]+) docs/\1\n```"
)


def test_every_picture_is_what_the_command_below_it_makes() -> None:
    found = PICTURE.findall(PAGE)
    assert len(found) == PAGE.count("](pictures/") > 3
    for file, name, kind in found:
        made = draw(kind, run_one(name, 1))
        assert words_of((ROOT / "docs" / file).read_text(encoding="utf-8")) == words_of(made), f"make {file} again"


def words_of(svg: str) -> list[str]:
    """All texts of a picture; a change of the ledger may shift its amounts by a little."""
    return [re.sub(r"[\d.,]+", "#", text) for text in re.findall(r">([^<>{}]+)<", svg)]


def test_the_example_of_a_scenario_breaks_no_law() -> None:
    example = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    result = result_of(SimulatedRun(parse(example[0], "example"), 1).go())
    assert result.good, result.violations


def test_every_rule_that_is_checked_is_listed() -> None:
    listed = set(re.findall(r"^\| ([\w-]+(?: \w+)*) \|", PAGE.partition("## Invariants")[2], re.MULTILINE)) - {"rule"}
    sources = "".join(file.read_text(encoding="utf-8") for file in (ROOT / "lab" / "simulator").rglob("*.py"))
    assert set(re.findall(r"violate\(\s*\"([^\"]+)\"", sources)) == listed
