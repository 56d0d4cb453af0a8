"""Change tasks as both pages of tasks offer it: what was asked, what it would do, and what it did."""

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from dispatcher.analysis.verdict import limits_at
from dispatcher.analysis.what_if import FinishChange
from dispatcher.analysis.why import CHANNEL_PAUSED, FLOW_PAUSED, SCHEDULED
from dispatcher.model.errors import InvalidInput, TaskEnded
from dispatcher.model.pools import Pool
from dispatcher.model.values import counted, duration, listed, moment
from fairlane.figures.why_rows import now_text
from producers.control.steering import PlannedChange
from producers.control.task_changes import Changes, TaskFilter
from producers.desk.board.groups import unpublished
from producers.desk.task_desk import BulkPreview
from web.console.page import Done, Elsewhere, Form, Plan, Visit

MAX_NAMED = 10
"""Tasks that a plan names, and reasons that it gives."""
_DOES = {
    "pause": ("Pause", "Paused", Changes(paused=True)),
    "resume": ("Resume", "Resumed", Changes(paused=False)),
    "cancel": ("Cancel", "Cancelled", Changes(cancelled=True)),
}


def changes_of(form: Mapping[str, str]) -> tuple[str, str, Changes]:
    """Return what a form asks for: in words, as a request and as done, and the changes. Raises InvalidInput."""
    if do := _DOES.get(form.get("do", "")):
        return do
    given: dict[str, Any] = {name: text for name in ("weight", "tier", "cap") if (text := form.get(name, "").strip())}
    if not given:
        raise InvalidInput("There is nothing to change.", "Give a weight, a tier or a cap.")
    words = f"Set {', '.join(f'{name} {text}' for name, text in given.items())} for"
    if "weight" in given:
        try:
            given["weight"] = float(given["weight"])
        except ValueError:
            raise InvalidInput(f"weight: is {given['weight']!r}.", "Give a number, such as 2 or 0.5.") from None
    return words, words, Changes(**given)


def change_form(chosen: Callable[[Visit], TaskFilter], back: Callable[[Visit], str] = lambda _: "") -> Form:
    """Return the form that changes tasks. chosen: which; back: the page to be shown after it."""

    def plan(visit: Visit) -> Plan:
        words, _, changes = changes_of(visit.form)
        confirmed = bool(visit.form.get("confirm"))
        made = visit.desks.tasks.preview_change(chosen(visit), changes, foresee=not confirmed)
        changing = made.plan.changing
        if not changing:
            raise _nothing(visit, made, words)
        return Plan(
            title=f"{words} {_who([step.task.id for step in changing])}",
            changes=[] if changes.end else _differences(changing[0]) if len(changing) == 1 else [],
            lines=_lines(made, changes),
            effects=None if confirmed else made.effects,
            others=made.moves_others,
            tasks=len(changing),
            targets=sum(step.task.targets.pending for step in changing),
        )

    def apply(visit: Visit) -> Done:
        _, words, changes = changes_of(visit.form)
        result = visit.desks.tasks.change_many(chosen(visit), changes)
        sentences = [f"{words} {_who(result.changed)}."] if result.changed else []
        sentences += ["Nothing was changed."] if not (result.changed or result.failed) else []
        sentences += [f"{counted(result.unchanged, 'task')} had this already."] if result.unchanged else []
        sentences += (
            [f"Not changed, as far as is known: {counted(len(result.failed), 'task')}."] if result.failed else []
        )
        return Done(" ".join([*sentences, *_reasons(result.failed), result.lacks_redis]).strip(), back(visit))

    return Form(plan=plan, apply=apply)


def moved(made: Sequence[FinishChange], id_: str, *, hides: bool) -> dict[str, Any]:
    """Return what a change would do to a task's end, and to the others, in words. hides: whether it would move others
    besides, which are not shown."""
    own = next((effect for effect in made if effect.task == id_), None)
    later = [effect for effect in made if effect.task != id_ and effect.later_s > 0]
    sooner = sum(effect.task != id_ and effect.later_s < 0 for effect in made)
    others = f"{counted(len(later), 'task')} later" if later else "no other task later"
    if later:
        worst = max(later, key=lambda effect: effect.later_s)
        others += f", at most {duration(worst.later_s)}: " if worst.eta_after_s is not None else ", without an end: "
        others += worst.task
    others += f"; {counted(sooner, 'task')} sooner" if sooner else ""
    return {"own": own, "others": others + ("; tasks of other apps too" if hides else "")}


def _lines(made: BulkPreview, changes: Changes) -> list[str]:
    steps, refused = made.plan.changing, made.plan.refused
    pending = sum(step.task.targets.pending for step in steps)
    if changes.end:
        soon = sum(unpublished(step.task) for step in steps)
        more = f", and {soon:,} more that are announced" if soon else ""
        lines = [f"Targets that would never be sent: {pending:,}{more}. This cannot be taken back."]
    else:
        trials = [step.task.id for step in steps if step.task.waits_for_go and changes.paused is False]
        lines = [f"Targets that wait: {pending:,}."]
        lines += [f"The trial of {_who(trials)} ends, and all other targets are sent."] if trials else []
        lines += [line for step in steps[:MAX_NAMED] if len(steps) > 1 for line in _differences(step)]
    apps = sorted({step.task.app for step in steps})
    lines += [f"They belong to {listed(apps, MAX_NAMED)}."] if apps[1:] else []
    same = len(made.plan.steps) - len(steps)
    lines += [f"Nothing changes for {counted(same, 'task')} more."] if same else []
    return lines + _reasons(refused)


def _differences(step: PlannedChange) -> list[str]:
    return [f"{step.task.id}: {name} {old} → {new}" for name, (old, new) in step.changes.items()]


def _nothing(visit: Visit, made: BulkPreview, words: str) -> Exception:
    """Return why a change would change nothing."""
    if made.plan.refused:
        return TaskEnded(" ".join(_reasons(made.plan.refused)), "Nothing was changed.")
    if made.plan.steps:
        task = made.plan.steps[0].task
        why = visit.desks.tasks.why(task.id)
        if words == _DOES["resume"][0] and why.now in (CHANNEL_PAUSED, FLOW_PAUSED):
            pool = Pool(why.app if why.now == FLOW_PAUSED else "", why.channel)
            return Elsewhere(f"Task {why.task} is not paused itself, but {now_text(why)}.", limits_at(pool))
        if words == _DOES["resume"][0] and len(made.plan.steps) == 1:
            starts = f": it starts at {moment(task.start_ms, datetime.now(UTC))} UTC" if why.now == SCHEDULED else ""
            return InvalidInput(f"Task {task.id} is not paused{starts}.", "Nothing was changed.")
        return InvalidInput(f"{words.removesuffix(' for')}: this is so already.", "Nothing was changed.")
    return InvalidInput("No live task matches.", "It may have ended meanwhile: look at the list again.")


def _reasons(failed: Mapping[str, str]) -> list[str]:
    more = len(failed) - MAX_NAMED
    return list(failed.values())[:MAX_NAMED] + ([f"And {more:,} more."] if more > 0 else [])


def _who(tasks: Any) -> str:
    return f"task {tasks[0]}" if len(tasks) == 1 else counted(len(tasks), "task")
