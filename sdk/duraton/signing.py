"""The signature on what the engine POSTs to a served app.

`Duraton-Signature: t=<seconds>,v1=<hex>` where the hex is HMAC-SHA256 of
`<seconds>.<body>` under the key that engine and runner share. Several `v1` may be
given while a key is replaced.
"""

import hashlib
import hmac

SIGNATURE_HEADER = b"duraton-signature"
TOLERANCE_S = 300
"""How far the signature's time may be from ours; later, a copied request is refused."""


def sign(key: str, body: bytes, at_s: int) -> str:
    """The header's value for a body signed at a time (seconds since 1970 UTC)."""
    return f"t={at_s},v1={_digest(key, body, str(at_s))}"


def verify(key: str, body: bytes, header: str, now_s: float) -> str | None:
    """Why a signature does not hold, or None where it does.

    Args:
        key: The shared key.
        body: The request's bytes as they came.
        header: The signature header, empty where there is none.
        now_s: The time, seconds since 1970 UTC.
    """
    if not header:
        return "the request is not signed"
    parts = [part.strip().partition("=") for part in header.split(",")]
    times = [value for name, _, value in parts if name == "t"]
    if len(times) != 1 or not (times[0].isascii() and times[0].isdigit() and len(times[0]) < 16):
        return "the signature states no time"
    if abs(now_s - int(times[0])) > TOLERANCE_S:
        return f"the signature's time is more than {TOLERANCE_S} s from this machine's"
    expected = _digest(key, body, times[0]).encode()
    given = [value.encode() for name, _, value in parts if name == "v1"]
    if not any(hmac.compare_digest(expected, each) for each in given):
        return "the signature is of another key or another body"
    return None


def _digest(key: str, body: bytes, at: str) -> str:
    return hmac.new(key.encode(), at.encode() + b"." + body, hashlib.sha256).hexdigest()
