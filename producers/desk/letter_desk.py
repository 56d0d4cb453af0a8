"""Failed targets at the desk: dead letters and invalid targets."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from dispatcher.model.errors import InvalidInput
from producers.desk.acting import Acting
from producers.desk.guard import action
from producers.outcomes.record import ReasonGroup, TargetFilter, TargetRecord
from producers.outcomes.replay import Replay

LETTERS_FOR = timedelta(days=1)
"""How far back dead letters are read if no task and no time is named."""


class LetterDesk(Acting):
    """Dead letters of a principal's tasks. Raises as PushClient does."""

    @action("letters.list")
    def letters(self, chosen: TargetFilter, state: str) -> list[ReasonGroup]:
        """Return dead letters by task and reason; of the last day, unless a task or a time is named."""
        groups = self._client.dead_letters.groups(self._recent(chosen), state)
        return list(map(self._record, groups))

    @action("letters.replay")
    def replay(self, chosen: TargetFilter, limit: int | None) -> list[Replay]:
        """Send dead letters again. Raises InvalidInput for an empty filter."""
        made = self._client.dead_letters.replay(self._named_targets(chosen), limit=limit, check=self._check_policy)
        shown = self._ids.shown
        return [replace(each, task=shown(each.task), replay=shown(each.replay)) for each in made]

    @action("letters.drop")
    def drop(self, chosen: TargetFilter, limit: int | None) -> int:
        """Mark dead letters as not needed any more, and return their number."""
        return self._client.dead_letters.drop(self._named_targets(chosen), limit=limit)

    @action("invalid.list")
    def invalid(self, chosen: TargetFilter) -> Iterator[TargetRecord]:
        """Yield the targets that providers called invalid in the last 14 days."""
        return map(self._record, self._client.invalid_targets(self._clipped_targets(chosen)))

    def _named_targets(self, chosen: TargetFilter) -> TargetFilter:
        if chosen == TargetFilter():
            raise InvalidInput("The filter is empty, so it would select all dead letters.", "Give a task or an error.")
        return self._recent(chosen)

    def _recent(self, chosen: TargetFilter) -> TargetFilter:
        is_bounded = chosen.task is not None or chosen.since is not None
        return self._clipped_targets(chosen if is_bounded else replace(chosen, since=datetime.now(UTC) - LETTERS_FOR))
