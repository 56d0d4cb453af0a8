"""Notice a task whose message its provider refuses for everybody, so that it need not be tried on everybody."""

from collections import OrderedDict
from collections.abc import Callable
from typing import NamedTuple

from dispatcher.channels.guards.trouble import KINDS
from dispatcher.channels.verdict_table import Effect

FIRST_ANSWERS = 100
"""The number of answers, without a single success, that condemn a message."""
MAX_TASKS = 1_000
"""Tasks of which answers are counted. One that is forgotten is counted again, and stopped only if nobody got it."""
_ACQUITTED = -1


class MessageRefusal(NamedTuple):
    """The first answers to a task all refuse its message."""

    task: str
    reason: str
    """The provider's."""


MessageRefused = Callable[[MessageRefusal], None]
"""Called once for a task. Must not block."""


class PayloadGuard:
    """Counts the first answers to each task that this worker sends."""

    def __init__(self) -> None:
        self._refusals: OrderedDict[str, int] = OrderedDict()

    def answered(self, task: str, effect: Effect) -> bool:
        """Note an answer by its effect. Return whether it completes FIRST_ANSWERS that all refuse the message.

        Trouble of the flow says nothing about the message. Any other answer acquits it.
        """
        count = self._refusals.get(task, 0)
        if count == _ACQUITTED or effect in KINDS:
            return False
        count = count + 1 if effect is Effect.PAYLOAD else _ACQUITTED
        self._refusals[task] = count
        if len(self._refusals) > MAX_TASKS:
            self._refusals.popitem(last=False)
        return count == FIRST_ANSWERS
