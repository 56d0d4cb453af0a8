"""Checks of a notification as APNs makes them. Each returns the reason of the refusal."""

import re
from collections.abc import Mapping

from dispatcher.channels.apns import TOPIC_SUFFIXES, ApnsSpec
from dispatcher.channels.rules.apns import PUSH_TYPE, header_refusals, payload_refusals

_TOPIC = re.compile(r"[A-Za-z0-9.-]{1,255}")
_token_problem = ApnsSpec().check_target


def topic_problem(headers: Mapping[str, str], ours: str, *, has_certificate: bool) -> str:
    """A certificate names the app; a provider token does not. Some push types ask for a topic of their own."""
    topic, suffix = headers.get("apns-topic", ""), TOPIC_SUFFIXES.get(headers.get(PUSH_TYPE, ""), "")
    if not topic:
        return "" if has_certificate else "MissingTopic"
    if not _TOPIC.fullmatch(topic):
        return "BadTopic"
    return "" if topic == ours + suffix else "TopicDisallowed"


def header_problem(headers: Mapping[str, str]) -> str:
    """Check all headers but those of topic and credentials."""
    return next((found.reason for found in header_refusals(headers)), "")


def token_problem(token: str) -> str:
    """Check a device token."""
    if not token:
        return "MissingDeviceToken"
    return "BadDeviceToken" if _token_problem(token) else ""


def payload_problem(body: bytes, push_type: str) -> str:
    """Check a payload. What APNs takes and a device ignores has no reason."""
    return next((found.reason for found in payload_refusals(body, push_type) if found.reason), "")
