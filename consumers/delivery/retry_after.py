"""The Retry-After header of HTTP (RFC 9110, section 10.2.3)."""

import math
from collections.abc import Mapping
from datetime import UTC
from email.utils import parsedate_to_datetime

LONGEST_RETRY_AFTER_S = 24 * 3600.0


def retry_after_s(headers: Mapping[str, str], wall_s: float) -> float | None:
    """Return the seconds to wait according to the Retry-After header; None if it is missing or malformed.

    The header holds seconds or a date, which is compared with the answer's own Date if it has one.
    """
    value = headers.get("Retry-After", "").strip()
    if not value:
        return None
    try:
        seconds = float(value)
    except ValueError:
        until_s = _date_s(value)
        if until_s is None:
            return None
        seconds = until_s - (_date_s(headers.get("Date", "")) or wall_s)
    if not math.isfinite(seconds):
        return None
    return min(max(0.0, seconds), LONGEST_RETRY_AFTER_S)


def _date_s(value: str) -> float | None:
    try:
        moment = parsedate_to_datetime(value)
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    except (ValueError, TypeError, OverflowError, IndexError):
        return None
