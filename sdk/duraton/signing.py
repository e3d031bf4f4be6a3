"""Whether the signature on what was POSTed to a served app holds.

Several `v1` may be given while a key is replaced.
"""

import hmac

from duraton_schemas.wire.serve import digest

TOLERANCE_S = 300
"""How far the signature's time may be from ours; later, a copied request is refused."""


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
    expected = digest(key, body, times[0]).encode()
    given = [value.encode() for name, _, value in parts if name == "v1"]
    if not any(hmac.compare_digest(expected, each) for each in given):
        return "the signature is of another key or another body"
    return None
