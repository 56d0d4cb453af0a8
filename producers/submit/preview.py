"""Try a submission out: read and check its whole audience, and show final requests. Nothing is created anywhere."""

from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace
from itertools import repeat
from math import ceil
from typing import Any, NamedTuple

import msgspec

from dispatcher.channels.push_message import LANGUAGE
from dispatcher.channels.spec import Handling, Rendering
from dispatcher.channels.specs import SPECS
from dispatcher.channels.submission.address import address_form
from dispatcher.clock import Clock
from dispatcher.model.task import PushTask
from dispatcher.wire.topics import Topics
from producers.submit.acceptance import accept
from producers.submit.cutter import SlabSource
from producers.submit.intake import AudienceRules, Intake, check_audience
from producers.submit.report import SubmitReport, SubmitResult, Watchers
from producers.submit.submit import audience_size, target_check
from producers.submit.validation import Accepted, Variables


class RequestPreview(NamedTuple):
    """The request that would leave for one target, but for the credentials."""

    target: str
    language: str
    """The locale of its texts; empty for the message's own."""
    headers: Mapping[str, str]
    payload: Any
    """The body. For a channel that makes its own requests: what it is given."""


class Preview(NamedTuple):
    """The targets and requests that a submission would accept and send."""

    result: SubmitResult
    languages: Mapping[str, int]
    """Accepted targets by the locale of their texts; empty for a message without locales."""
    requests: list[RequestPreview]


def preview(
    task: PushTask,
    targets: Iterable[object] | SlabSource,
    clock: Clock,
    rules: AudienceRules = AudienceRules(),
    *,
    samples: int = 0,
    target: str | None = None,
) -> Preview:
    """Check a submission as `submit` does, without a server.

    samples: the number of requests shown for each language. target: show the request of this target. Raises
    InvalidInput as `submit`.
    """
    check_audience(targets)
    name, form, check = task.id or "", address_form(task.channel), target_check(task, targets)
    report, now_ms = SubmitReport(name or "(new)", Watchers(), clock), clock.wall_ms()
    record = accept(task, name or "new", audience_size(task, targets), now_ms, Topics(), first=rules.first)
    intake = Intake(targets, report.refuse, clock.monotonic_s, rules.duplicates, check, form)
    handling = Handling(task.tier, max(now_ms, record.start_ms), record.expires_ms)
    chosen = _Requests(task, handling, samples, str(form.of(target)) if target else "")
    accepted = 0
    with closing(intake.accepted(record.chunk)) as slabs:
        for slab in slabs:
            if not accepted and check is not None:
                check.check_samples(slab.addresses, slab.variables)
            accepted += len(slab.addresses)
            chosen.add(slab)
    if not accepted and not rules.allow_empty:
        raise report.nothing_accepted()
    result = report.result("", accepted, envelopes=ceil(accepted / record.chunk), resumed_from=0)
    result = replace(result, task=name, duplicates=intake.duplicates, without_text=intake.without_text)
    return Preview(result, dict(chosen.languages.most_common()), chosen.found)


@dataclass
class _Requests:
    """Chooses targets and makes their requests."""

    task: PushTask
    handling: Handling
    samples: int
    target: str
    languages: Counter[str] = field(default_factory=Counter)
    found: list[RequestPreview] = field(default_factory=list)

    def __post_init__(self) -> None:
        spec, self._message = SPECS.get(self.task.channel), self.task.complete_message
        self._rendering: Rendering | None = None if spec is None else spec.render(self._message, self.handling)
        self._locales: dict[str, str] = {}
        self._shown = Counter[str]()

    def add(self, slab: Accepted) -> None:
        """Count the languages of a slab, and keep the requests that are to be shown."""
        for address, variables in zip(slab.addresses, slab.variables or repeat(None)):  # noqa: B905  # endless
            language = self._locale(variables)
            if self.task.locales:
                self.languages[language] += 1
            if self._shown[language] < self.samples or address == self.target:
                self._shown[language] += 1
                self.found.append(self._request(address, variables, language))

    def _locale(self, variables: Variables) -> str:
        """Return the locale whose texts a target gets; empty for the message's own."""
        tag = str((variables or {}).get(LANGUAGE, ""))
        if self._rendering is None or not self.task.locales or not tag:
            return ""
        if tag not in self._locales:
            of = self._rendering.templates.in_language
            template = self._rendering.templates.of(variables)
            self._locales[tag] = next((locale for locale in self.task.locales if of(locale) is template), "")
        return self._locales[tag]

    def _request(self, address: str, variables: Variables, language: str) -> RequestPreview:
        if self._rendering is None:
            given = {"message": self._message, "target": address, "variables": variables or {}}
            return RequestPreview(address, language, {}, given)
        request = self._rendering.request(address, variables)
        return RequestPreview(address, language, request.headers, msgspec.json.decode(request.body))
