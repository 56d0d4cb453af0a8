"""Checks of a notification as APNs makes them. Each returns the reason of the refusal."""

import re
from collections.abc import Mapping

import msgspec

from dispatcher.channels.apns import MAX_PAYLOAD_BYTES, PRIORITIES, PUSH_TYPE, PUSH_TYPES, TOPIC_SUFFIXES, ApnsSpec
from dispatcher.channels.push_message import MAX_COLLAPSE_BYTES
from dispatcher.model.errors import DECODING_ERRORS

MAX_VOIP_BYTES = 5_120
ID_FORM = re.compile(r"[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}")
_EXPIRATION = re.compile(r"\d{1,12}")
_TOPIC = re.compile(r"[A-Za-z0-9.-]{1,255}")
_token_problem = ApnsSpec().check_target
_decode = msgspec.json.Decoder().decode


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
    push_type, priority = headers.get(PUSH_TYPE, "alert"), headers.get("apns-priority", "")
    if push_type not in PUSH_TYPES:
        return "InvalidPushType"
    if priority and (priority not in PRIORITIES or (push_type, priority) == ("background", "10")):
        return "BadPriority"
    if not _EXPIRATION.fullmatch(headers.get("apns-expiration", "0")):
        return "BadExpirationDate"
    if "apns-id" in headers and not ID_FORM.fullmatch(headers["apns-id"]):
        return "BadMessageId"
    if len(headers.get("apns-collapse-id", "").encode()) > MAX_COLLAPSE_BYTES:
        return "BadCollapseId"
    return ""


def token_problem(token: str) -> str:
    """Check a device token."""
    if not token:
        return "MissingDeviceToken"
    return "BadDeviceToken" if _token_problem(token) else ""


def payload_problem(body: bytes, push_type: str) -> str:
    """Check a payload. Apple documents no reason of its own for one that is no JSON object."""
    if len(body) > (MAX_VOIP_BYTES if push_type == "voip" else MAX_PAYLOAD_BYTES):
        return "PayloadTooLarge"
    try:
        payload = _decode(body)
    except DECODING_ERRORS:
        return "PayloadEmpty"
    return "" if isinstance(payload, dict) and payload else "PayloadEmpty"
