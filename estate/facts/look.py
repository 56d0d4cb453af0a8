"""Looks at the estate that the settings name."""

from contextlib import closing, suppress
from dataclasses import replace

from backends.pulsar.client import topics
from backends.settings import EstateSettings
from dispatcher.model.errors import FairlaneError
from estate.facts.questions import Depth
from estate.facts.reader import EstateReader
from estate.rules.cluster import BrokerLoad, Estate, Expectations
from estate.rules.guarded import Guarded
from estate.rules.node_life import decode_nodes
from estate.rules.reading import estate_of
from estate.rules.slow_nodes import JudgeSettings
from fairlane.screen.fields import local_moment
from fairlane.settings import Settings


def estate_reader(settings: Settings) -> EstateReader:
    """Return what asks all nodes of the estate. Raises NotConfigured; Unreachable if the local stack's Pulsar has
    ended."""
    return EstateReader(settings.pulsar, topics(settings.pulsar), settings.estate.bookie_http)


def look_at(settings: Settings, reader: EstateReader, depth: Depth) -> Estate:
    """Return what one look shows, with the lost brokers that the cluster does not list any more, as far as their names
    are known.

    Raises InvalidInput if estate.bookie_http is no address.
    """
    estate = estate_of(reader.read(depth))
    estate = replace(estate, broker_number=settings.estate.brokers or estate.broker_number)
    listed = {broker.name for broker in estate.brokers}
    gone = [
        BrokerLoad(name=name, failure=f"last seen {since}", gone=True)
        for name, since in _lost_brokers(settings, estate).items()
        if name not in listed
    ]
    return replace(estate, brokers=(*estate.brokers, *gone))


def _lost_brokers(settings: Settings, estate: Estate) -> dict[str, str]:
    """Note in the view which brokers answer. Return when the lost ones last did: those noted there, else those that
    the last provisioning found."""
    from backends.redis.view import open_view
    from estate.facts.node_notes import SeenBrokers

    if "brokers" in estate.unread:
        return {}
    answering = {broker.name for broker in estate.brokers if broker.answered}
    missing = max(0, (estate.broker_number or 0) - len(answering))
    lost: dict[str, str] = {}
    with suppress(FairlaneError), closing(open_view(settings.redis)) as view:  # that Redis fails is another finding
        silent = {broker.name for broker in estate.brokers} - answering
        seen = SeenBrokers(view).note(answering, silent, missing)
        lost = {name: f"at {local_moment(at_ms)}" for name, at_ms in seen.items()}
    for name in estate.broker_names:
        if len(lost) < missing and name not in answering:
            lost.setdefault(name, "by `fairlane provision`")
    return lost


def expectations(settings: Settings) -> Expectations:
    """Return what the rules need to know of the settings."""
    estate = settings.estate
    return Expectations(
        guarded=estate.guard,
        racks=estate.racks,
        offload=estate.offload is not None,
        system_namespace=topics(settings.pulsar).system_namespace,
        system_brokers=estate.system_brokers,
        system_bookies=estate.system_bookies,
    )


def judge_settings(estate: EstateSettings) -> JudgeSettings:
    """Return the bounds of judgements that the settings say."""
    release_ms = estate.release_s * 1000
    return JudgeSettings(
        slow_ms=estate.slow_ms,
        slow_ratio=estate.slow_ratio,
        release_ms=release_ms,
        longest_hold_ms=max(release_ms, JudgeSettings.longest_hold_ms),
        longest_look_ms=2_000 * max(estate.look_s, 5.0),
    )


def read_guarded(settings: Settings) -> Guarded:
    """Return the elected guard and its states of nodes; why not, if Redis does not answer. Raises nothing."""
    from backends.redis.guard_states import GuardStates
    from backends.redis.view import open_view

    try:
        with closing(open_view(settings.redis)) as view:
            states = GuardStates(view)
            guard, content = states.guard(), states.read()
        return Guarded(guard, {} if content is None else decode_nodes(content))
    except FairlaneError as error:
        return Guarded(failure=error.cause)
