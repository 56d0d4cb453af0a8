"""Rendering and checking a target of `fcm` and `apns`, on one thread: microseconds per target."""

import gc
import time
from collections.abc import Callable, Mapping
from statistics import median

from dispatcher.channels.spec import Handling
from dispatcher.channels.specs import SPECS
from dispatcher.channels.submission.target_check import TargetCheck
from dispatcher.model.tier import Tier

TARGETS = 20_000
REPEATS = 7
MESSAGE = {"title": "Hi {{name|there}}", "body": "Your order {{order}} is on its way", "data": {"screen": "order"}}
LOCALES = {"de": {"title": "Hallo {{name}}"}, "zh-Hant": {"title": "{{name}}"}}
TOKENS = {"fcm": "dGVzdA:APA91bH-_x" * 9, "apns": "0aF9" * 16}


def run() -> dict[str, float]:
    """Measure both channels: a fixed message, two variables, two variables in a language of the target, and the check
    of a target at submission."""
    figures: dict[str, float] = {}
    plain = [{"name": f"Ann {number}", "order": f"A-{number:06d}"} for number in range(TARGETS)]
    special = [{**own, "lang": "zh-Hant-TW"} for own in plain]
    for channel, spec in SPECS.items():
        target = TOKENS[channel]

        def render(message: Mapping[str, object], variables: list[dict[str, str]], channel: str = channel) -> float:
            templates = SPECS[channel].render(message, Handling(Tier.HIGH, 0, 0)).templates
            return _us(lambda own: templates.of(own).fill(TOKENS[channel], own), variables)

        check = TargetCheck(spec, MESSAGE)
        figures[f"{channel}_fixed_us"] = render({"title": "Hi", "body": "Sale"}, plain)
        figures[f"{channel}_two_variables_us"] = render(MESSAGE, plain)
        figures[f"{channel}_language_us"] = render({**MESSAGE, "locales": LOCALES}, special)
        figures[f"{channel}_check_us"] = _us(lambda own: check.are_good([target], [own]), plain)  # noqa: B023  # used at once
    return figures


def _us(work: Callable[[dict[str, str]], object], variables: list[dict[str, str]]) -> float:
    """Return the median time of a call, in microseconds."""
    times = []
    gc.disable()
    try:
        for _ in range(REPEATS):
            began_s = time.process_time()
            for own in variables:
                work(own)
            times.append((time.process_time() - began_s) / len(variables) * 1e6)
    finally:
        gc.enable()
    return median(times)
