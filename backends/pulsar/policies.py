"""The policies Fairlane needs on its namespaces, every number in one place, and where a namespace differs."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from dispatcher.model.task import DAY_MS, RECORDS_KEPT_MS

RETENTION_DAYS = RECORDS_KEPT_MS // DAY_MS
"""Retention of control, outcome and dead-letter records."""
BACKLOG_LIMIT_BYTES = 1 << 40
"""Maximum backlog of a topic before its producers must wait: 15,000 million targets of 64 characters."""
UNACKED_PER_CONSUMER = 50_000
"""A worker holds far fewer; a worker that stops acknowledging is stopped here."""
UNACKED_PER_SUBSCRIPTION = 1_000_000
"""At least the combined prefetch of a hundred workers: a subscription that reaches it stops for all of them."""


@dataclass(frozen=True)
class Policy:
    """One policy of a namespace."""

    field: str
    """Its name in Pulsar's namespace policies."""
    path: str
    """Its path in the REST interface below the namespace."""
    required: Any
    what: str
    """Text shown when the policy is changed."""
    body: Any = None
    """Body to post; None posts the required value."""

    @property
    def posted(self) -> Any:
        return self.required if self.body is None else self.body


_BACKLOG_QUOTA = {"limitSize": BACKLOG_LIMIT_BYTES, "limitTime": -1, "policy": "producer_request_hold"}

_COMMON: tuple[Policy, ...] = (
    # Overrides every broker-wide default that could delete, evict, drop or create something.
    Policy(
        "autoTopicCreationOverride", "autoTopicCreation", {"allowAutoTopicCreation": False},
        "topics are not created by accident",
    ),
    Policy(
        "autoSubscriptionCreationOverride", "autoSubscriptionCreation", {"allowAutoSubscriptionCreation": False},
        "subscriptions are not created by accident",
    ),
    # A resumed submission may split its batches differently; deduplication would then drop new messages. Copies are
    # recognized by the identity of the envelope instead.
    Policy("deduplicationEnabled", "deduplication", required=False, what="Pulsar's deduplication is off"),
    Policy(
        "backlog_quota_map", "backlogQuota", {"destination_storage": _BACKLOG_QUOTA},
        f"backlog quota {BACKLOG_LIMIT_BYTES >> 30} GiB a topic, producers wait", body=_BACKLOG_QUOTA,
    ),
    Policy("message_ttl_in_seconds", "messageTTL", 0, "messages never expire in Pulsar"),
    Policy("subscription_expiration_time_minutes", "subscriptionExpirationTime", 0, "subscriptions never expire"),
    # Lanes are deleted when their task has finished; the system's topics have no subscription and look inactive.
    Policy(
        "inactive_topic_policies", "inactiveTopicPolicies",
        {
            "inactiveTopicDeleteMode": "delete_when_no_subscriptions",
            "maxInactiveDurationSeconds": 86_400,
            "deleteWhileInactive": False,
        },
        "idle topics are not deleted by Pulsar",
    ),
    Policy(
        "max_unacked_messages_per_consumer", "maxUnackedMessagesPerConsumer", UNACKED_PER_CONSUMER,
        f"at most {UNACKED_PER_CONSUMER:,} unacknowledged messages a consumer",
    ),
    Policy(
        "max_unacked_messages_per_subscription", "maxUnackedMessagesPerSubscription", UNACKED_PER_SUBSCRIPTION,
        f"at most {UNACKED_PER_SUBSCRIPTION:,} unacknowledged messages a subscription",
    ),
    # Retry lanes are first in, first out per delay step; the broker need not track delays.
    Policy(
        "delayed_delivery_policies", "delayedDelivery", {"active": False, "tickTime": 1000},
        "delayed delivery is off",
    ),
)  # fmt: skip


RETENTION = "retention_policies"


def _retention(minutes: int, megabytes: int, what: str) -> Policy:
    return Policy(RETENTION, "retention", {"retentionTimeInMinutes": minutes, "retentionSizeInMB": megabytes}, what)


LANE_POLICIES: tuple[Policy, ...] = (*_COMMON, _retention(0, 0, "what is acknowledged is not kept"))
"""Policies of the namespaces that hold lanes."""
SYSTEM_POLICIES: tuple[Policy, ...] = (
    *_COMMON,
    _retention(RETENTION_DAYS * 24 * 60, -1, f"records are kept for {RETENTION_DAYS} days, whatever their size"),
)
"""Policies of the namespace of the control, outcome and dead-letter topics."""


def at_creation(policies: tuple[Policy, ...], bundles: int) -> dict[str, Any]:
    """Return the request body that creates a namespace and sets all its policies in one call."""
    return {"bundles": {"numBundles": bundles}, **{policy.field: policy.required for policy in policies}}


def differing(policies: tuple[Policy, ...], stored: Mapping[str, Any]) -> Iterator[Policy]:
    """Yield the policies that the namespace lacks or has with another value."""
    for policy in policies:
        if not includes(stored.get(policy.field), policy.required):
            yield policy


def includes(stored: Any, required: Any) -> bool:
    """Return whether `stored` has everything required. Fields that later brokers add to a policy are ignored."""
    if isinstance(required, Mapping):
        return isinstance(stored, Mapping) and all(includes(stored.get(key), value) for key, value in required.items())
    return bool(stored == required)
