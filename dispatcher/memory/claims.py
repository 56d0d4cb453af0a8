"""Claims: who holds which envelopes, until their outcome is recorded, they are given back, or the claim ends."""

from dispatcher.memory.view import Claim, ClaimRun, MemoryTask, MemoryView


def member(claim: str, task: str) -> str:
    """Name of what one claim holds of one task."""
    return f"{claim}|{task}"


def task_of(name: str) -> str:
    """The task in a claim member's name."""
    return name.partition("|")[2]


def add(runs: list[ClaimRun], run: ClaimRun) -> None:
    """Appends a run, joined to the last one where it goes on from it."""
    last = runs[-1] if runs else None
    if last is not None and _goes_on(last, run):
        last.count += run.count
    else:
        runs.append(run)


def _goes_on(last: ClaimRun, run: ClaimRun) -> bool:
    return (
        last.first + last.count == run.first
        and last.attempt == run.attempt
        and last.size == run.size
        and last.paid == run.paid
        and last.writer == run.writer
    )


def open_claim(view: MemoryView, name: str, claim: Claim) -> None:
    """A call that is made again after its answer was forgotten still holds what it claimed before."""
    before = view.claims.get(name)
    if before is None:
        view.task(task_of(name)).claims += 1
    else:
        claim.runs += before.runs
    view.claims[name] = claim
    view.due[name] = claim.end_ms


def close_claim(view: MemoryView, name: str) -> None:
    if view.claims.pop(name, None) is not None:
        view.due.pop(name, None)
        view.task(task_of(name)).claims -= 1


def cut(view: MemoryView, name: str, writer: str, attempt: int, first: int, count: int) -> list[ClaimRun]:
    """Takes sequences out of a claim and returns what it held of them; an empty claim is gone."""
    claim = view.claims.get(name)
    if claim is None:
        return []
    kept: list[ClaimRun] = []
    taken: list[ClaimRun] = []
    for run in claim.runs:
        if (run.writer, run.attempt) != (writer, attempt):
            kept.append(run)
            continue
        end, last = first + count, run.first + run.count
        if first <= run.first and last <= end:
            taken.append(run)
            continue
        _keep(kept, run, run.first, min(last, first))
        _keep(taken, run, max(run.first, first), min(last, end))
        _keep(kept, run, max(run.first, end), last)
    claim.runs = kept
    if not kept:
        close_claim(view, name)
    return taken


def _keep(runs: list[ClaimRun], run: ClaimRun, first: int, end: int) -> None:
    if first < end:
        runs.append(ClaimRun(run.writer, run.attempt, first, end - first, run.size, run.paid))


def tally(view: MemoryView, what: str, run: ClaimRun, count: int) -> None:
    """Counts what became of granted targets: used, returned or expired. At any time what was granted to a tier is the
    sum of these and of what live claims hold."""
    if run.paid and count:
        view.stats[f"{what}:{run.paid}"] += count * run.size


def free(task: MemoryTask, run: ClaimRun, claim: str) -> int:
    """The sequences of a run that are not recorded may be granted again; how many those are."""
    freed = 0
    for sequence in range(run.first, run.first + run.count):
        freed += _free_one(task, run.writer, run.attempt, sequence, claim)
    return freed


def _free_one(task: MemoryTask, writer: str, attempt: int, sequence: int, claim: str) -> int:
    envelope = task.open.get((writer, sequence))
    if attempt == 0:
        touched = task.touched_of(writer)
        if envelope is not None or sequence in task.finals_of(writer) or sequence not in touched:
            return 0
        touched.discard(sequence)
        return 1
    if envelope is None or envelope.claim != claim or envelope.claimed != attempt:
        return 0
    envelope.claimed, envelope.claim = -1, ""
    return 1
