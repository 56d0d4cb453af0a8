"""Rendered messages, kept while their envelopes pass: a message is compiled once, not once per target."""

from collections import OrderedDict
from dataclasses import dataclass

from consumers.delivery.http2.port import Headers
from consumers.delivery.push.provider import Authorization, Provider
from dispatcher.channels.spec import Handling, Rendering
from dispatcher.clock import Clock
from dispatcher.model.errors import InvalidInput
from dispatcher.model.tier import Tier
from dispatcher.verdicts import error_text
from dispatcher.wire.envelope import Envelope, decode_message

MAX_KEPT = 256
FRESH_S = 1.0
"""Requests of a message with an end name the time that is left, so they are rendered again."""
FRESH_WITHOUT_END_S = 60.0


@dataclass
class Rendered:
    """The requests of a message but for target and proof."""

    provider: Provider
    rendering: Rendering | None
    """None: the message cannot be sent to anybody."""
    headers: Headers
    until_s: float
    problem: str = ""
    """Why it cannot."""
    _proof: Authorization | None = None
    _all_headers: Headers = ()

    def headers_with(self, authorization: Authorization) -> Headers:
        """Return all headers. Requests that share the tuple are prepared faster."""
        if self._proof is not authorization:
            self._proof, self._all_headers = authorization, self.provider.joined(authorization.headers, self.headers)
        return self._all_headers


class Renderings:
    """The messages of recent envelopes."""

    def __init__(self, provider: Provider, clock: Clock) -> None:
        self._provider = provider
        self._clock = clock
        self._kept: OrderedDict[tuple[bytes, str, int], Rendered] = OrderedDict()

    def of(self, envelope: Envelope, tier: str) -> Rendered:
        """Return the rendering of an envelope's message."""
        key = (bytes(envelope.message), tier, envelope.expires_ms)
        rendered = self._kept.get(key)
        now_s = self._clock.monotonic_s()
        if rendered is None or now_s >= rendered.until_s:
            rendered = self._kept[key] = self._render(envelope, tier, now_s)
            self._kept.move_to_end(key)
            if len(self._kept) > MAX_KEPT:
                self._kept.popitem(last=False)
        return rendered

    def _render(self, envelope: Envelope, tier: str, now_s: float) -> Rendered:
        handling = Handling(_tier(tier), self._clock.wall_ms(), envelope.expires_ms)
        until_s = now_s + (FRESH_S if envelope.expires_ms else FRESH_WITHOUT_END_S)
        try:
            rendering = self._provider.spec.render(decode_message(envelope.message), handling)
        except InvalidInput as error:
            return Rendered(self._provider, None, (), until_s, problem=str(error))
        except Exception as error:  # whatever is wrong with one envelope's message, the call has others
            problem = f"The message cannot be read: {error_text(error)}"
            return Rendered(self._provider, None, (), until_s, problem=problem)
        return Rendered(self._provider, rendering, tuple(rendering.headers.items()), until_s)


def _tier(name: str) -> Tier:
    try:
        return Tier(name)
    except ValueError:
        return Tier.MEDIUM
