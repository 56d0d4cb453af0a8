"""Audiences that break off in the middle, are empty, or are larger than their app may have."""

import asyncio
import io
from collections.abc import AsyncIterator, Callable, Iterator

import pytest

from dispatcher.model.errors import InvalidInput, NotFound
from fairlane.settings import Settings
from producers.client import PushClient
from tests.integration.worker_crew import audience, let_commands_use, push
from tests.unit.command_line import CommandLine

pytestmark = pytest.mark.timeout(120)


def empty_stream() -> Iterator[str]:
    yield from ()


@pytest.mark.parametrize("audience_of", [list, empty_stream])
def test_an_empty_audience_leaves_the_id_free(
    push_client: PushClient, audience_of: Callable[[], Iterator[str]]
) -> None:
    task = push(id=f"empty-{audience_of.__name__}")
    with pytest.raises(InvalidInput, match="is empty"):
        push_client.submit(task, audience_of())
    with pytest.raises(NotFound):
        push_client.task(task.id or "")
    assert push_client.submit(task, audience(10)).wait(timeout_s=60).targets.sent == 10


def test_a_query_that_prints_nothing_is_no_campaign(
    push_client: PushClient, module_settings: Settings, monkeypatch: pytest.MonkeyPatch, cli: CommandLine
) -> None:
    let_commands_use(module_settings, monkeypatch)

    def submit(text: str, *options: str, code: int = 0) -> str:
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BufferedReader(io.BytesIO(text.encode()))))
        given = ["--id", "sale", "--app", "shop", "--channel", "log", "--body", "Hi", "--targets", "-"]
        return cli(["task", "submit", *given, *options], code).err

    assert "audience of task sale is empty" in submit("", code=2)
    assert "no column named target" in submit("id;name\n1;Ada\n", code=2)
    cli(["task", "show", "sale"], 3)
    submit("a\nb\na\n", "--unique")
    assert push_client.task("sale").wait(timeout_s=60).targets.sent == 2
    submit("", "--allow-empty", "--id", "none")
    assert push_client.task("none").wait(timeout_s=60).state == "completed"


def test_async_callers_are_refused_what_is_no_audience_or_empty(module_settings: Settings) -> None:
    async def nothing() -> AsyncIterator[str]:
        for target in list[str]():
            yield target

    async def use() -> None:
        async with PushClient.connect_async(module_settings) as client:
            for audience_of in (nothing, lambda: "token-1", lambda: None):
                with pytest.raises(InvalidInput, match=r"is empty|of type (str|NoneType)"):
                    await client.submit(push(id="async"), audience_of())  # type: ignore[arg-type]
            with pytest.raises(NotFound):
                await client.task("async")

    asyncio.run(use())
