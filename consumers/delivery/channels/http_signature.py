"""Sign POSTs according to the Standard Webhooks specification (HMAC-SHA256, `v1`)."""

import base64
import binascii
import hashlib
import hmac

from dispatcher.model.errors import InvalidInput

_PREFIX = "whsec_"
_KEY_BYTES = range(24, 65)


def signing_key(secret: str) -> bytes:
    """Return the key in a secret: `whsec_` and the base64 of 24 to 64 bytes. Raises InvalidInput."""
    try:
        key = base64.b64decode(secret.removeprefix(_PREFIX), validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if not secret.startswith(_PREFIX) or len(key) not in _KEY_BYTES:
        raise InvalidInput(
            "The signing secret of the http channel is not `whsec_` and the base64 of 24 to 64 bytes.",
            "Correct FAIRLANE_HTTP_SIGNING_SECRET. A new one: echo whsec_$(openssl rand -base64 32)",
        )
    return key


def signature_headers(key: bytes, message_id: str, seconds: int, body: bytes) -> dict[str, str]:
    """Return the headers that sign a body. `seconds` is the current time since the epoch."""
    signed = b"%s.%d.%s" % (message_id.encode(), seconds, body)
    signature = base64.b64encode(hmac.digest(key, signed, hashlib.sha256)).decode()
    return {"webhook-id": message_id, "webhook-timestamp": str(seconds), "webhook-signature": f"v1,{signature}"}
