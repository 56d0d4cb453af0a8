"""Nonsense in every field of every page and form, with the key of one app: no error of ours, nothing of another app."""

import random
from urllib.parse import quote, urlencode

import pytest

from dispatcher.access.principal import Scope
from tests.unit.dispatch.desk.desk_world import DeskWorld
from tests.unit.web.console.browser import browsing
from web.console.pages import PAGES

OTHERS = ("digest", "Secret body", "Secret reason")
FIELDS = (
    "after", "app", "before", "body", "by", "cap", "capacity", "channel", "channels", "confirm", "cursor", "do",
    "error", "failures", "for_s", "format", "id", "if", "joins", "key", "name", "paused", "q", "quota", "reason",
    "scopes", "seen", "shown", "since", "sort", "state", "table", "targets", "task", "tier", "title", "typed", "unit",
    "weight", "which", "without_task",
)  # fmt: skip
VALUES = (
    "news", "shop", "~digest", "sale", "all", "pause", "resume", "cancel", "set", "running", "stuck", "paused",
    "completed", "-eta", "csv", "1", "0", "-1", "1e309", "nan", "0x10", "%00", "../../x", "*", "1d",
    "2026-01-31T08:00Z", "log", "log/news", "[]", "null", "true", "5b5d", "operator", "<b>x</b>", "{{7*7}}",
    "0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59-23:59",
    "", "9" * 30, "\uff11\uff12", "\x00", "\U0001f600", "' OR 1=1 --", "a" * 5_000, "\r\nX: y", "\u202e", "a\nb",
)  # fmt: skip
PATHS = [page.path for page in PAGES]
FORMS = [f"{page.path.rstrip('/')}/{form}" for page in PAGES for form in page.forms]


@pytest.mark.parametrize("seed", range(3))
async def test_nonsense_is_refused_and_shows_nothing_of_another_app(world: DeskWorld, seed: int) -> None:
    chance, wrong = random.Random(seed), list[str]()
    world.submit("sale")
    world.submit("digest", "news", message="Secret body")
    world.client.change_service(lambda service: service.pause_flow("log", "news", reason="Secret reason"))
    token = world.client.access.create("shop", [Scope.READ, Scope.CONTROL, Scope.SUBMIT]).token
    before = world.client.task("digest").progress()
    async with browsing(world, token) as browser:
        for number in range(150):
            fields = {chance.choice(FIELDS): chance.choice(VALUES) for _ in range(chance.randint(0, 8))}
            task = quote(chance.choice(["sale", "digest", "~digest", *filter(None, VALUES)]), safe="")[:200]
            path = chance.choice(FORMS if number % 2 else PATHS).replace("{id}", task)
            seen = await (browser.send(path, fields) if number % 2 else browser.get(f"{path}?{urlencode(fields)}"))
            shown = [text for text in OTHERS if text in seen.text and text not in f"{task} {fields}"]
            if seen.status >= 500 or shown or "<b>x" in seen.html:
                wrong.append(f"{seen.status} {path[:80]} {shown} {fields}")
    assert not wrong, "\n".join(wrong)
    world.service.fold()
    assert world.client.task("digest").progress() == before
