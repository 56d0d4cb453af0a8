"""Faults of the estate, for `fairlane doctor`."""

from collections.abc import Iterator
from contextlib import closing

from backends.pulsar import provision
from dispatcher.analysis.finding import Finding
from dispatcher.model.errors import FairlaneError
from estate.facts.look import estate_reader, expectations, look_at, read_guarded
from estate.facts.questions import Depth
from estate.rules.check import check_estate
from estate.rules.cluster import Estate
from fairlane.settings import Settings

_RUN_GUARD = "Run `fairlane estate guard --act`."


def estate_findings(settings: Settings) -> Iterator[Finding]:
    """Yield the findings of all brokers and bookies, asked all at once. Raises no error that a finding can report."""
    try:
        with closing(estate_reader(settings)) as reader:
            estate = look_at(settings, reader, Depth.SETTINGS | Depth.TOPICS | Depth.STORAGE)
    except FairlaneError as error:
        yield Finding("warn", f"Brokers and bookies were not looked at. {error.cause}", error.next_step)
        return
    yield from check_estate(estate, expectations(settings))
    yield from _settings_of_some(estate)
    yield from _guard(settings)


def _guard(settings: Settings) -> Iterator[Finding]:
    """Yield what is wrong with the guard. Whether Redis can be reached at all is a finding of its own."""
    guarded = read_guarded(settings)
    if settings.estate.guard and not guarded.guard and not guarded.failure:
        reason = "a slow bookie stays in use, and with receipts before all copies it fills the brokers' memory"
        yield Finding("warn", "estate.guard is set and no guard runs", _RUN_GUARD, reason=reason)
    for what in guarded.wrong():
        yield Finding("warn", what, _RUN_GUARD if not guarded.guard else "Wait until its probes are well.")


def _settings_of_some(estate: Estate) -> Iterator[Finding]:
    """Yield the broker settings that Fairlane relies on and some brokers only have.

    Those of the broker at the configured address are reported with the cluster.
    """
    asked = [broker for broker in estate.brokers if broker.settings]
    for setting in provision.BROKER_SETTINGS:
        wrong = [each for each in asked if not setting.good(each.settings.get(setting.name, ""))]
        if 0 < len(wrong) < len(asked):
            yield Finding(
                setting.level,
                f"broker setting {setting.name} of {', '.join(each.name for each in wrong)}",
                f"Set it to {setting.wanted} in broker.conf of each and restart.",
                figure=f"{wrong[0].settings.get(setting.name, 'not known')} at {len(wrong)} of {len(asked)} brokers",
                reason=setting.reason,
            )
