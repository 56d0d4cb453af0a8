"""Read a channel's answer. A channel may be a user's code, so every field of its answer is checked here.

Anything with a clear meaning is corrected: bytes are decoded, surrogates escaped, "5" seconds are 5 seconds, an
exception keyed by a target concerns that target. Anything unclear is a fault. It is reported once to `fault`, and
decided like this:

- A verdict with an undefined code: those targets are tried again.
- An exception for a target that is not in the envelope: all targets of the envelope are tried again, as with a wrong
  number of reports. It is not known which of them was not sent, and no target may count as sent without a report.
"""

import math
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from datetime import timedelta
from itertools import islice
from typing import SupportsFloat, SupportsIndex, cast

from dispatcher.model.shown import KNOWN, without_credentials
from dispatcher.wire.envelope import Envelope
from dispatcher.wire.groups import MAX_TIME_MS
from dispatcher.wire.outcome import (
    ALL_SENT,
    MAX_PROVIDER_ID,
    MAX_REASON_BYTES,
    OPEN_NAMES,
    OUTCOME_NAMES,
    UNKNOWN,
    Outcome,
    Report,
    Verdict,
    sound_text,
)

Fault = Callable[[str], None]
"""Called with each fault. The text names its kind and no target, so that the same fault has the same text."""

_CODES = frozenset((*map(int, Outcome), *OPEN_NAMES))
_BY_NAME = {**{name: code for code, name in enumerate(OUTCOME_NAMES)}, **{name: c for c, name in OPEN_NAMES.items()}}
_LONGEST_TEXT = 8 * MAX_REASON_BYTES
"""Maximum characters read from an exception's text."""
_MAX_EXCEPTIONS = 10_000
"""Maximum exceptions read from one report. An envelope has at most 500 targets."""
_LONGEST_INDEX = 9
"""Maximum digits of an index given as text."""


class _NoTarget(Exception):
    """An exception in a report refers to no target of the envelope."""


def all_sent(answer: object, count: int) -> bool:
    """Return whether the answer is ALL_SENT for each envelope, the only answer that needs no check."""
    if type(answer) is not list or len(answer) != count:
        return False
    # By identity: a foreign object may claim to equal anything. A loop, since every call takes this path.
    for report in answer:  # noqa: SIM110
        if report is not ALL_SENT:
            return False
    return True


def read_reports(answer: object, envelopes: Sequence[Envelope], fault: Fault) -> list[Report]:
    """Convert the return value of `deliver` to a valid report for each envelope."""
    try:
        reports = _listed(answer, len(envelopes), fault)
    except Exception as error:
        reports = f"deliver() returned a {_type(answer)} that cannot be read: {error_text(error)}"
    if isinstance(reports, str):
        fault(reports)
        return [Report(Verdict(UNKNOWN, reports))] * len(envelopes)
    return [_report(report, each.targets, fault) for report, each in zip(reports, envelopes, strict=True)]


def error_text(error: BaseException) -> str:
    """Return the exception's type and text, in at most 1 kB and without the credentials in addresses."""
    try:
        text = str(error)
    except Exception:  # a custom exception's __str__ may raise anything
        text = "(it has no readable text)"
    return sound_text(without_credentials(f"{_type(error)}: {text[:_LONGEST_TEXT]}"))


def _type(value: object) -> str:
    return sound_text(type(value).__name__)


def _listed(answer: object, count: int, fault: Fault) -> list[object] | str:
    """Return the value given as each envelope's report, or the fault."""
    if isinstance(answer, Report) and count == 1:
        fault("deliver() returned a Report, not a list of reports")
        return [answer]
    unordered = isinstance(answer, (str, bytes, Mapping, Set))
    if unordered or not hasattr(answer, "__iter__"):
        return f"deliver() returned a {_type(answer)}, not a list of reports"
    reports = list(islice(answer, count + 1))
    if len(reports) != count:
        returned = len(answer) if isinstance(answer, (list, tuple)) else f"{len(reports)} or more"
        return f"deliver() returned {returned} reports for {count} envelopes"
    if not isinstance(answer, (list, tuple)):
        fault(f"deliver() returned a {_type(answer)}, not a list of reports")
    return reports


def _report(report: object, targets: Sequence[str], fault: Fault) -> Report:
    if report is ALL_SENT:
        return ALL_SENT
    try:
        if isinstance(report, Report):
            verdict = read_verdict(report.verdict, fault)
            exceptions = _exceptions(report.exceptions, targets, fault)
            return Report(verdict, exceptions or None)
        if isinstance(report, (Verdict, Outcome)):
            fault(f"deliver() returned a {_type(report)} among its reports")
            return Report(read_verdict(report, fault))
        problem = f"deliver() returned a {_type(report)} among its reports"
    except _NoTarget as error:
        problem = str(error)
    except Exception as error:
        problem = f"a report cannot be read: {error_text(error)}"
    fault(problem)
    return Report(Verdict(UNKNOWN, problem))


# ---------------------------------------------------------------- exceptions
def _exceptions(exceptions: object, targets: Sequence[str], fault: Fault) -> dict[int, Verdict]:
    sound: dict[int, Verdict] = {}
    if exceptions is None:
        return sound
    if not isinstance(exceptions, Mapping):
        fault(f"the exceptions of a report are a {_type(exceptions)}, not a dict; they are ignored")
        return sound
    try:
        by_name = any(isinstance(key, (str, bytes)) for key in exceptions)
        by_target = _indexes_by_target(targets) if by_name else {}
        for key, value in islice(exceptions.items(), _MAX_EXCEPTIONS):
            for index in _indexes(key, by_target, len(targets), fault):
                sound[index] = read_verdict(value, fault)
    except _NoTarget:
        raise
    except Exception as error:
        fault(f"the exceptions of a report cannot be read to their end: {error_text(error)}")
    return sound


def _indexes_by_target(targets: Sequence[str]) -> dict[str, list[int]]:
    by_target: dict[str, list[int]] = {}
    for index, target in enumerate(targets):
        by_target.setdefault(target, []).append(index)
    return by_target


def _indexes(key: object, by_target: Mapping[str, list[int]], targets: int, fault: Fault) -> Iterable[int]:
    """Return the indexes of the targets that a key of the exceptions refers to. `by_target`: indexes by target. Raises
    _NoTarget."""
    if type(key) is int and 0 <= key < targets:
        return (key,)
    if isinstance(key, (str, bytes)):
        name = key.decode("utf-8", "replace") if isinstance(key, bytes) else key
        if name in by_target:
            fault("exceptions are keyed by target, not by index")
            return by_target[name]
    index = _integer(key)
    if index is None or not 0 <= index < targets:
        where = f"for a {_type(key)} that is none of its targets" if index is None else f"at index {_number(index)}"
        size = "1 target" if targets == 1 else f"{targets} targets"
        raise _NoTarget(f"a report has an exception {where}, but its envelope has {size}")
    fault(f"exceptions are keyed by {_type(key)}, not by int")
    return (index,)


def _integer(value: object) -> int | None:
    """Return the value as an integer, or None if it is not clearly one."""
    if isinstance(value, str):
        digits = value.isascii() and value.isdigit() and len(value) <= _LONGEST_INDEX
        return int(value) if digits else None
    if isinstance(value, float):
        return int(value) if value.is_integer() else None
    if isinstance(value, bool):
        return None
    try:
        return operator.index(cast("SupportsIndex", value))
    except Exception:
        return None


# ---------------------------------------------------------------- verdicts
def read_verdict(verdict: object, fault: Fault) -> Verdict:
    """Convert a channel's verdict on a target to one that can be recorded."""
    try:
        if type(verdict) is Verdict and _is_plain(verdict):
            return verdict
        return _sound(verdict, fault)
    except Exception as error:
        problem = f"a verdict cannot be read: {error_text(error)}"
        fault(problem)
        return Verdict(UNKNOWN, problem)


def _is_plain(verdict: Verdict) -> bool:
    """Return whether the verdict needs no closer check. Nearly all need none."""
    reason, seconds = verdict.reason, verdict.retry_after_s
    if type(verdict.code) is not int or verdict.code not in _CODES or type(reason) is not str:
        return False
    wait = seconds is None or (type(seconds) is float and 0 <= seconds < math.inf)
    wait = wait and type(verdict.paused) is type(verdict.refused) is bool
    plain_id = verdict.provider_id == "" or _is_plain_id(verdict.provider_id)
    plain = len(reason) <= MAX_REASON_BYTES and reason.isascii() and KNOWN.mask(reason) is reason
    return wait and verdict.died_ms == 0 and plain and plain_id


def _is_plain_id(provider_id: object) -> bool:
    return type(provider_id) is str and len(provider_id) <= MAX_PROVIDER_ID and provider_id.isascii()


def _sound(verdict: object, fault: Fault) -> Verdict:
    if isinstance(verdict, Outcome):
        fault("there is an Outcome where a Verdict belongs")
        return Verdict(int(verdict))
    if not isinstance(verdict, Verdict):
        problem = f"there is a {_type(verdict)} where a Verdict belongs"
        fault(problem)
        return Verdict(UNKNOWN, problem)
    code = _code(verdict.code, fault)
    if code is None:
        problem = f"the channel answered with the undefined code {_shown(verdict.code)}"
        fault(problem)
        return Verdict(UNKNOWN, problem, _seconds(verdict.retry_after_s, fault))
    return Verdict(
        code=code,
        reason=_reason(verdict.reason, fault),
        retry_after_s=_seconds(verdict.retry_after_s, fault),
        died_ms=_died_ms(verdict.died_ms, fault),
        paused=verdict.paused is True,
        provider_id=_provider_id(verdict.provider_id, fault),
        refused=verdict.refused is True,
    )


def _code(code: object, fault: Fault) -> int | None:
    if type(code) is int or type(code) is Outcome:
        return int(code) if code in _CODES else None
    number = _BY_NAME.get(code.lower()) if isinstance(code, str) else _integer(code)
    if number not in _CODES:
        return None
    fault(f"the code of a verdict is a {_type(code)}, not an Outcome, RETRY, UNSENT or UNKNOWN")
    return number


def _shown(code: object) -> str:
    return str(code) if type(code) is int and -1000 < code < 1000 else f"of type {_type(code)}"


def _number(index: int) -> str:
    return str(index) if abs(index) < 10**_LONGEST_INDEX else "of more than 9 digits"


def _reason(reason: object, fault: Fault) -> str:
    """Return the reason, or none if it cannot be read."""
    if not isinstance(reason, str):
        if reason is None:
            return ""
        fault(f"the reason of a verdict is a {_type(reason)}, not a str")
    try:
        return KNOWN.mask(sound_text(reason))
    except Exception:
        return "(the reason cannot be read)"


def _seconds(seconds: object, fault: Fault) -> float | None:
    """Return the wait in seconds (at least 0; inf for the longest), or None if it is unclear."""
    if seconds is None:
        return None
    number = math.nan
    if isinstance(seconds, timedelta):
        number = seconds.total_seconds()
    elif not isinstance(seconds, bool):
        try:
            number = float(cast("SupportsFloat | str", seconds))
        except OverflowError:  # a huge int
            number = math.inf
        except Exception:
            number = math.nan
    if type(seconds) not in (int, float) or not 0 <= number < math.inf:
        fault(f"retry_after_s is not a number of seconds but {_wrong(seconds, number)}")
    return None if math.isnan(number) else max(0.0, number)


def _died_ms(at_ms: object, fault: Fault) -> int:
    """Return the time of death, or 0 if it is not a wall time in ms."""
    if type(at_ms) is int and 0 <= at_ms < MAX_TIME_MS:
        return at_ms
    fault("died_ms is not a wall time in ms; it is ignored")
    return 0


def _provider_id(provider_id: object, fault: Fault) -> str:
    """Return the provider's id of the message, or none if it is no text."""
    if isinstance(provider_id, str):
        return sound_text(provider_id)[:MAX_PROVIDER_ID]
    fault(f"the provider_id of a verdict is a {_type(provider_id)}, not a str")
    return ""


def _wrong(seconds: object, number: float) -> str:
    if type(seconds) not in (int, float):
        return f"a {_type(seconds)}"
    return "negative" if number < 0 else "not finite"
