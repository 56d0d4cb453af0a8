"""What `fairlane doctor` says of the view in Redis."""

from collections.abc import Iterator, Mapping, Sequence

from backends.passed_over import MAX_KEPT, Passed, PassedOver
from backends.provision import Finding
from backends.redis_view import open_view
from dispatcher.errors import FairlaneError
from fairlane.settings import Settings


def view_findings(settings: Settings) -> Iterator[Finding]:
    """Nothing where Redis does not answer: other findings say so."""
    try:
        view = open_view(settings.redis)
        try:
            yield from passed_over_findings(PassedOver(view).by_topic(settings.pulsar.outcome_partitions))
        finally:
            view.close()
    except FairlaneError:
        return


def passed_over_findings(passed: Mapping[str, Sequence[Passed]]) -> Iterator[Finding]:
    """One for each topic with records that were passed over."""
    for topic, kept in passed.items():
        name = topic if topic == "control" else f"outcomes-{topic}"
        more = ", the oldest of more" if len(kept) >= MAX_KEPT else ""
        yield Finding(
            "warn",
            f"{len(kept)} records of {name} were passed over{more}; the first, at {kept[0].position}: {kept[0].reason}",
            "A newer version that can read them applies them. If none wrote them, something else writes to the topic: "
            "see who may.",
        )
