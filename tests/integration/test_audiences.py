"""Audiences that break off in the middle, are empty, or are larger than their app may have."""

import asyncio
import io
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest

from dispatcher.model.errors import InvalidInput, LimitReached, NotFound, TaskEnded
from fairlane.cli.main import run
from fairlane.settings import Settings
from producers.client import PushClient
from producers.files.targets_file import TargetsFile
from tests.integration.steered import push
from tests.integration.worker_crew import audience, environment, eventually

pytestmark = pytest.mark.timeout(120)


def use(monkeypatch: pytest.MonkeyPatch, settings: Settings) -> None:
    """For commands."""
    for name, value in environment(settings).items():
        monkeypatch.setenv(name, value)


def breaking_off(sent: Callable[[], bool]) -> Iterator[str]:
    yield from audience(500, "half")
    eventually(sent, 30, "what was stored is sent")
    raise RuntimeError("the database went away")


@pytest.mark.parametrize("all_sent", [False, True])
def test_a_task_that_is_cancelled_half_submitted_ends_cancelled(
    push_client: PushClient, module_settings: Settings, monkeypatch: pytest.MonkeyPatch, all_sent: bool
) -> None:
    """all_sent: nothing is left open at the cancel, since all that was stored has its outcome."""
    task = push(id=f"half-{all_sent}", chunk=100)

    def sent() -> bool:
        counts = push_client.task(f"half-{all_sent}").progress().targets
        return not all_sent or (counts.sent > 0 and not counts.pending)

    with pytest.raises(RuntimeError, match="went away"):
        push_client.submit(task, breaking_off(sent))
    handle = push_client.task(f"half-{all_sent}")
    handle.cancel()
    view = handle.wait(timeout_s=60)
    assert (view.state, view.sealed) == ("cancelled", False)
    use(monkeypatch, module_settings)
    assert run(["task", "wait", handle.id]) == 1
    with pytest.raises(TaskEnded):
        push_client.submit(task, audience(1_000, "half"))


def empty_stream() -> Iterator[str]:
    yield from ()


@pytest.mark.parametrize("audience_of", [list, empty_stream])
def test_an_empty_audience_leaves_the_id_free(
    push_client: PushClient, audience_of: Callable[[], Iterator[str]]
) -> None:
    task = push(id=f"empty-{audience_of.__name__}", chunk=100)
    with pytest.raises(InvalidInput, match="is empty"):
        push_client.submit(task, audience_of())
    with pytest.raises(NotFound):
        push_client.task(task.id or "")
    assert push_client.submit(task, audience(10)).wait(timeout_s=60).targets.sent == 10


def test_a_query_that_prints_nothing_is_no_campaign(
    push_client: PushClient,
    module_settings: Settings,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    use(monkeypatch, module_settings)

    def submit(text: str, *options: str) -> int:
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BufferedReader(io.BytesIO(text.encode()))))
        given = ["--id", "sale", "--app", "shop", "--channel", "log", "--body", "Hi", "--targets", "-"]
        return run(["task", "submit", *given, *options])

    assert submit("") == 2
    assert "audience of task sale is empty" in capsys.readouterr().err
    assert submit("id;name\n1;Ada\n") == 2
    assert "no column named target" in capsys.readouterr().err
    assert run(["task", "show", "sale"]) == 3
    assert submit("a\nb\na\n", "--unique") == 0
    assert push_client.task("sale").wait(timeout_s=60).targets.sent == 2
    assert submit("", "--allow-empty", "--id", "none") == 0
    assert push_client.task("none").wait(timeout_s=60).state == "completed"


def test_a_file_that_is_larger_than_its_app_may_have_is_refused(push_client: PushClient, tmp_path: Path) -> None:
    (tmp_path / "devices.txt").write_text("".join(f"{target}\n" for target in audience(60_000)))
    push_client.limit_app("limited", targets=100)
    with pytest.raises(LimitReached, match=r"60,000 more"):
        push_client.submit(push(id="huge", app="limited"), TargetsFile(tmp_path / "devices.txt"))
    with pytest.raises(NotFound):
        push_client.task("huge")


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
