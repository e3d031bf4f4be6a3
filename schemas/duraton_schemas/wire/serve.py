"""What engine and served runners agree on besides frames: headers, signature, signs of life."""

import hashlib
import hmac
from typing import Final

CONTENT_TYPE: Final = "application/msgpack"
VERSION_HEADER: Final = "Duraton-Version"
"""`PROTOCOL_VERSION`, on requests."""
SIGNATURE_HEADER: Final = "Duraton-Signature"
"""As `sign` gives it, on requests."""
DRAINING_HEADER: Final = "Duraton-Draining"
"""`1` on a 503 that costs the run no invoke: the runner takes nothing new."""

SIGN_OF_LIFE: Final = b"\xc0"
"""What a runner sends, once every few seconds, before an answer that takes long: a
msgpack nil, which no answer begins with."""


def sign(key: str, body: bytes, at_s: int) -> str:
    """The signature header's value: `t=<seconds>,v1=<hex>`.

    Args:
        key: The key that engine and runner share.
        body: The request's bytes.
        at_s: The time, seconds since 1970 UTC; runners refuse what is old.
    """
    return f"t={at_s},v1={digest(key, body, str(at_s))}"


def digest(key: str, body: bytes, at: str) -> str:
    """HMAC-SHA256 of `<at>.<body>` in hexadecimal, `at` being the time as it was written."""
    return hmac.new(key.encode(), at.encode() + b"." + body, hashlib.sha256).hexdigest()
