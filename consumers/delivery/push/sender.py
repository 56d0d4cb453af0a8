"""The requests of one app: bounded, each begun in time, each judged as it is answered."""

import asyncio
from collections.abc import Iterator

import msgspec

from consumers.delivery.fleet_gate import FleetGate
from consumers.delivery.flow_figures import FlowFigures
from consumers.delivery.http2.port import Fate, Headers, HttpRequest, HttpResponse, RequestFailed
from consumers.delivery.push.access import Access, AppAccess
from consumers.delivery.push.health import Health
from consumers.delivery.push.judging import suspected, verdict_on
from consumers.delivery.push.provider import Provider
from consumers.delivery.push.rendering import Rendered, Renderings
from consumers.delivery.push.runners import Runners
from dispatcher.analysis.send_errors import CAP_TEXT
from dispatcher.channels.calls import ProviderCall, TargetResults
from dispatcher.channels.guards.door import ONE, StallWatch
from dispatcher.channels.guards.trouble import (
    KEPT_S,
    KINDS,
    RECHECKED_AFTER_S,
    MessageRefusal,
    MessageRefused,
    PayloadGuard,
    Trouble,
)
from dispatcher.channels.template import MissingVariable
from dispatcher.channels.verdict_table import Answer, Effect, Row, wait_of
from dispatcher.clock import Clock
from dispatcher.model.errors import FairlaneError, InvalidInput, Unreachable
from dispatcher.model.flow_pause import PauseKind, flow_name
from dispatcher.verdicts import error_text
from dispatcher.wire.outcome import OPEN_NAMES, SENT, UNKNOWN, UNSENT, Outcome, Verdict

WAITS_S = 1.0
"""How long a call waits for a closed flow before it returns its targets unsent."""
AGAIN_S = 1.0
"""When targets that their cap has not let through are due again."""
MAX_REFUSALS = 3
"""How often a request that the server refused is sent again at once."""
REFUSED_WAIT_S = 0.05
_NO_ACCESS = "Check that the source of the credential, and the issuer of its tokens, answer."
_FAILED = int(Outcome.FAILED)
_SENT = int(Outcome.SENT)


class Item:
    """A target of a call."""

    __slots__ = ("body", "headers", "index", "rendered", "results", "target")

    def __init__(self, results: TargetResults, index: int, rendered: Rendered, body: bytes, headers: Headers) -> None:
        self.results = results
        self.index = index
        self.rendered = rendered
        self.target = results.envelope.targets[index]
        self.body = body
        self.headers = headers
        """Those that its variables make."""


class Sender:
    """Sends the calls of one app, which are one flow."""

    def __init__(
        self,
        channel: str,
        app: str,
        provider: Provider,
        access: AppAccess,
        clock: Clock,
        *,
        gate: FleetGate,
        message_refused: MessageRefused,
        figures: FlowFigures,
        keeps_ids: bool = False,
    ) -> None:
        """`figures`: of this flow, with the limit of its requests. `keeps_ids`: whether verdicts name the provider's
        ids."""
        self._payload_guard, self._message_refused = PayloadGuard(), message_refused
        self.channel, self.app, self.flow = channel, app, flow_name(channel, app)
        self.provider, self._keeps_ids = provider, keeps_ids
        self.access = access
        self.renderings = Renderings(provider, clock)
        self.health = Health()
        self.clock = clock
        self.sent_row = provider.spec.table.row_of(Answer(status=200))
        self.figures, self._gate = figures, gate
        self.stalls, self.paced = StallWatch(), False
        self.runners = Runners(self._limit)

    def answered(self, task: str, effect: Effect, reason: str = "") -> None:
        """Note an answer to a task's message."""
        if self._payload_guard.answered(task, effect):
            self._message_refused(MessageRefusal(task, reason))

    def verdict_on_sent(self, response: HttpResponse) -> Verdict:
        """Return the verdict on a target that the provider took."""
        return Verdict(_SENT, provider_id=self.provider.id_in(response)) if self._keeps_ids else SENT

    def _limit(self) -> int:
        """Return how many requests may be under way now."""
        if self._gate.probing(self.flow):
            return 1
        return self.figures.limit.paced_limit if self.paced else self.figures.limit.limit

    def trouble(self, kind: PauseKind, for_s: float, reason: str) -> Trouble:
        """Return the trouble of this flow."""
        version = self.access.version
        return Trouble(channel=self.channel, app=self.app, kind=kind, for_s=for_s, reason=reason, credential=version)


class CallRun:
    """One call of a sender."""

    def __init__(self, sender: Sender, gate: FleetGate, call: ProviderCall, latest_s: float) -> None:
        """`latest_s`: monotonic time after which no request begins."""
        self._sender = sender
        self._gate = gate
        self._call = call
        self._latest_s = latest_s
        self._clock = sender.clock
        self._provider = sender.provider
        self._check_target = sender.provider.spec.check_target
        self._items = self._all_items()
        self._paced = sender.paced = gate.is_paced(sender.flow)
        self._turned_away = False
        """Whether a request has waited for the cap in vain."""
        self._left = sum([len(results.envelope.targets) for results in call.envelopes])
        """Targets that no runner has taken."""
        self._access: Access

    async def run(self) -> None:
        """Send what may be sent now."""
        closed, access = await self._opened()
        if access is not None and closed is None:
            with access.connections.used():
                self._access = access
                await self._sender.runners.send_all(self)
            closed = self._gate.closed(self._sender.flow)
        if closed is not None:
            self._put_off(closed)
        if self._turned_away and closed is None:
            self._explain(CAP_TEXT, AGAIN_S)
        elif self._left:
            self._explain("no time was left in the call" if closed is None else f"{closed.kind}: {closed.reason}")

    # ------------------------------------------------------------- before
    async def _opened(self) -> tuple[Trouble | None, Access | None]:
        """Wait a little for the flow to be open. Return why it is not, and the access."""
        gate, flow = self._gate, self._sender.flow
        try:
            current = await self._current()
            closed = gate.closed(flow)
            if closed is not None:
                await asyncio.sleep(min(WAITS_S, closed.for_s))
                current = await self._current()
                closed = gate.closed(flow)
            return closed, current
        except TimeoutError:
            error: FairlaneError = Unreachable("The app's credential or its access token does not come.", _NO_ACCESS)
        except FairlaneError as failure:
            error = failure
        kind = PauseKind.DOWN if error.retryable else PauseKind.CREDENTIALS
        trouble = self._sender.trouble(kind, RECHECKED_AFTER_S, str(error))
        gate.report(trouble)
        await asyncio.sleep(WAITS_S)
        return gate.closed(flow) or trouble, None

    async def _current(self) -> Access:
        """Return the access, within the time of the call. A stall of this worker while a call waits for its flow says
        nothing about it."""
        async with asyncio.timeout(max(0.0, self._latest_s - self._clock.monotonic_s())):
            return await self._sender.access.current()

    def _put_off(self, closed: Trouble) -> None:
        """Report the open targets as unsent, with the time that is left. What is due soon is given back instead."""
        if closed.for_s <= KEPT_S:
            return
        for results in self._call.envelopes:
            results.report_unstarted(closed.put_off)

    def _explain(self, reason: str, after_s: float | None = None) -> None:
        """Say why the rest of partly sent envelopes is unsent. The others are given back."""
        for results in self._call.envelopes:
            if results.is_begun:
                results.report_unstarted(Verdict(UNSENT, reason, after_s))

    # ------------------------------------------------------------- requests
    def _all_items(self) -> Iterator[Item]:
        """Yield the targets that can be sent, and report on the others."""
        for results in self._call.envelopes:
            envelope = results.envelope
            rendered = self._sender.renderings.of(envelope, self._call.tier)
            for index in range(len(envelope.targets)):
                item = self._item(results, index, rendered)
                if item is not None:
                    yield item

    def _item(self, results: TargetResults, index: int, rendered: Rendered) -> Item | None:
        """Return the target with its body; None if it cannot be sent, which is reported."""
        self._left -= 1
        rendering = rendered.rendering
        if rendering is None:
            self._sender.answered(results.envelope.task, Effect.PAYLOAD, rendered.problem)
            results.report(index, Verdict(_FAILED, rendered.problem))
            return None
        envelope = results.envelope
        target = envelope.targets[index]
        variables = None if envelope.variables is None else envelope.variables[index]
        try:
            body = rendering.templates.of(variables).fill(target, variables)
            headers = rendering.own_headers(variables)
        except MissingVariable as error:
            results.report(index, Verdict(_FAILED, str(error)))
            return None
        except Exception as error:  # whatever is wrong with one target's variables, the call has others
            results.report(index, Verdict(_FAILED, f"a variable cannot be written: {error_text(error)}"))
            return None
        item = Item(results, index, rendered, body, headers)
        if self._check_target(target) is not None:
            self._judge(item, self._provider.malformed_target)
        elif len(body) > rendering.max_body_bytes:
            self._judge(item, self._provider.too_large)
        else:
            return item
        return None

    def take(self) -> Item | None:
        """Return the next target that can be sent; None if none may leave any more."""
        return next(self._items, None) if self._may_begin() else None

    async def _entered(self) -> bool:
        """Wait until the flow's cap lets a request leave. Return False if nothing may leave any more."""
        if not self._paced:
            return True
        entered = await self._gate.enter(self._sender.flow, self._latest_s)
        self._turned_away |= not entered
        return entered and self._may_begin()

    def _may_begin(self) -> bool:
        return self._clock.monotonic_s() < self._latest_s and self._gate.closed(self._sender.flow) is None

    async def send(self, item: Item) -> bool:
        """Send a target until it is judged. Return False if its cap does not let it leave."""
        if self._paced and not await self._entered():
            return False
        refusals = renewals = 0
        while item.results.start(item.index):
            access, began_s = self._access, self._begin()
            try:
                response = await access.connections.send(self._request(item, access))
            except BaseException as error:
                if not self._is_sent_again(item, error, refusals, access, began_s):
                    break
                refusals += 1
                await asyncio.sleep(REFUSED_WAIT_S * refusals)
            else:
                if response.status == 200 and self._provider.took(response):
                    self._took(item, response, began_s)
                    break
                if not await self._is_renewed(item, response, began_s, access, may_renew=not renewals):
                    break
                renewals += 1
            if not await self._entered():
                break
        return True

    def _begin(self) -> float:
        """Count a request that leaves. Return when."""
        sender = self._sender
        sender.figures.begin()
        if self._paced:
            sender.stalls.left(sender.flow, ONE)
        return self._clock.monotonic_s()

    def _answered(self, verdict: str, began_s: float) -> float:
        """Count an answer. Return when it came. If it ends a stall of the provider, what left meanwhile arrives now."""
        figures, now_s = self._sender.figures, self._clock.monotonic_s()
        figures.answers[verdict] += 1
        figures.end(now_s - began_s, now_s)
        if self._paced:
            left = self._sender.stalls.answered(now_s - began_s, figures.limit.usual_s, now_s)
            for flow, load in left.items():
                self._gate.stalled(flow, load)
        return now_s

    def _unanswered(self, failure: RequestFailed, began_s: float) -> None:
        """Count a request without an answer. How long it took says something if the provider may have taken it."""
        figures, now_s = self._sender.figures, self._clock.monotonic_s()
        if failure.fate is Fate.UNKNOWN:
            figures.answers[OPEN_NAMES[UNKNOWN]] += 1
            figures.end(now_s - began_s, now_s)
        else:
            figures.answers[OPEN_NAMES[UNSENT]] += 1
            figures.break_off()

    def _request(self, item: Item, access: Access) -> HttpRequest:
        authorization = access.authorization
        url = authorization.url + item.target if self._provider.target_in_path else authorization.url
        own = (*self._provider.own_headers(item.results.envelope, item.index), *item.headers)
        headers = item.rendered.headers_with(authorization)
        return HttpRequest(url=url, body=item.body, headers=headers, own_headers=own)

    def _is_sent_again(self, item: Item, error: BaseException, refusals: int, access: Access, began_s: float) -> bool:
        """Judge a request without an answer, unless the server refused it and may be asked again. Return whether it
        may. Raises what says nothing about the request, such as its cancellation."""
        if not isinstance(error, RequestFailed):
            self._sender.figures.break_off()
            if not isinstance(error, InvalidInput):
                raise error
            item.results.not_taken(item.index)
            self._sender.answered(item.results.envelope.task, Effect.PAYLOAD, str(error))
            item.results.report(item.index, Verdict(_FAILED, str(error)))
            return False
        self._unanswered(error, began_s)
        if error.refused and refusals < MAX_REFUSALS and self._may_begin():
            item.results.not_taken(item.index)
            return True
        self._fail(item, error, access, began_s)
        return False

    def _took(self, item: Item, response: HttpResponse, began_s: float) -> None:
        """Record that the provider took a target."""
        sender = self._sender
        sender.health.answered(self._answered(Effect.SENT, began_s))
        self._gate.answered(sender.flow, sender.sent_row)
        sender.answered(item.results.envelope.task, Effect.SENT)
        item.results.report(item.index, sender.verdict_on_sent(response))

    async def _is_renewed(
        self, item: Item, response: HttpResponse, began_s: float, access: Access, *, may_renew: bool
    ) -> bool:
        """Judge an answer that is no success, unless it asks for another proof and there is one. Return whether there
        is, so that the target is sent again."""
        answer = self._provider.read(response)
        row = self._provider.spec.table.row_of(answer)
        self._answered(row.effect, began_s)
        if not row.may_be_taken:
            item.results.not_taken(item.index)
        renewed = await self._renewed(row, access) if may_renew else None
        if renewed is None or not self._may_begin():
            self._judge(item, answer, access)
            return False
        self._access = renewed
        return True

    async def _renewed(self, row: Row, access: Access) -> Access | None:
        """Return an access with another proof, if the answer asks for one and there is one."""
        if not row.renew:
            return None
        try:
            renewed = await self._sender.access.renew(access)
        except FairlaneError:
            return None
        return renewed if renewed.authorization.headers != access.authorization.headers else None

    # ------------------------------------------------------------- verdicts
    def _judge(self, item: Item, answer: Answer, access: Access | None = None) -> None:
        row = self._provider.spec.table.row_of(answer)
        counts = self._gate.answered(self._sender.flow, row)
        if row.effect in KINDS:
            self._note_trouble(row, answer, access)
        elif access is not None:
            self._sender.health.answered(self._clock.monotonic_s())
        if counts:
            verdict = verdict_on(row, answer, RECHECKED_AFTER_S, is_paused=self._is_paused())
        else:
            verdict = suspected(row, answer, RECHECKED_AFTER_S)
        verdict = self._later_if_unknown(verdict)
        self._sender.answered(item.results.envelope.task, row.effect, verdict.reason)
        item.results.report(item.index, verdict)

    def _note_trouble(self, row: Row, answer: Answer, access: Access | None) -> None:
        sender = self._sender
        now_s = self._clock.monotonic_s()
        if row.effect is Effect.DOWN and not sender.health.answered_down(now_s):
            return
        if row.in_part and not sender.health.answered_in_part(now_s):
            return
        if row.effect is Effect.CREDENTIALS and access is not None and not self._gate.closed(sender.flow):
            access.connections.renew()
        for_s = wait_of(row, answer) or RECHECKED_AFTER_S
        reason = verdict_on(row, answer, for_s).reason
        self._gate.report(sender.trouble(KINDS[row.effect], for_s, reason))

    def _fail(self, item: Item, failure: RequestFailed, access: Access, began_s: float) -> None:
        """Judge a request without an answer, and note that the provider may be down."""
        if failure.fate is Fate.NOT_TAKEN:
            item.results.not_taken(item.index)
        pause_s = self._sender.health.unanswered(began_s, self._clock.monotonic_s())
        if pause_s is not None:
            access.connections.renew()
            self._gate.report(self._sender.trouble(PauseKind.DOWN, pause_s, failure.reason))
        code = UNKNOWN if failure.fate is Fate.UNKNOWN else UNSENT
        verdict = Verdict(code, failure.reason, paused=code == UNSENT and self._is_paused())
        item.results.report(item.index, self._later_if_unknown(verdict))

    def _is_paused(self) -> bool:
        """Return whether the flow is paused, if only here and for a moment."""
        return self._gate.closed(self._sender.flow) is not None

    def _later_if_unknown(self, verdict: Verdict) -> Verdict:
        """Let a target that may be taken wait while the provider does not work, so that its tries outlast that."""
        wait_s = self._sender.health.unknown_wait_s(self._clock.monotonic_s()) if verdict.code == UNKNOWN else None
        if wait_s is None:
            return verdict
        return msgspec.structs.replace(verdict, retry_after_s=max(wait_s, verdict.retry_after_s or 0.0))
