"""One signed POST to a served runner, and what its outcome means."""

from collections.abc import Callable

import httpx

from duraton_api.runners.errors import MissedError
from duraton_api.runners.http import HttpAnswer, HttpTransport
from duraton_api.runners.settings import ServeSettings
from duraton_schemas.wire.frames import PROTOCOL_VERSION
from duraton_schemas.wire.serve import (
    CONTENT_TYPE,
    DRAINING_HEADER,
    SIGN_OF_LIFE,
    SIGNATURE_HEADER,
    VERSION_HEADER,
    sign,
)

SAID_LENGTH_MAX = 200
"""Letters of a refusal's body that are shown."""


class Poster:
    """Makes the requests.

    Args:
        transport: What carries them out.
        settings: Bounds and deadlines; silence and length are watched by the caller.
        wall_s: The wall clock in seconds since 1970 UTC.
    """

    def __init__(
        self, transport: HttpTransport, settings: ServeSettings, wall_s: Callable[[], float]
    ) -> None:
        self._transport = transport
        self._settings = settings
        self._wall_s = wall_s
        self._receiving = 0

    async def post(self, url: str, body: bytes, heard: Callable[[], None]) -> bytes:
        """POST an invocation and give the answer's bytes.

        Args:
            url: The app's URL.
            body: The message.
            heard: Called whenever bytes come.

        Raises:
            MissedError: There is no answer, or it is a refusal.
        """
        headers = {"content-type": CONTENT_TYPE, VERSION_HEADER: str(PROTOCOL_VERSION)}
        if self._settings.signing_key is not None:
            at_s = int(self._wall_s())
            headers[SIGNATURE_HEADER] = sign(self._settings.signing_key, body, at_s)
        size = 0

        def count(more: int) -> None:
            nonlocal size
            heard()
            size += more
            self._receiving += more
            if size > self._settings.answer_bytes_max:
                raise MissedError(
                    f"the runner's answer is above {self._settings.answer_bytes_max} bytes"
                )
            if self._receiving > self._settings.answers_bytes_max and self._receiving > size:
                raise MissedError("too many long answers came at once", counts=False)

        try:
            answer = await self._transport.post(url, headers, body, count)
        except (OSError, ValueError) as error:
            said = str(error) or type(error).__name__
            raise MissedError(f"the runner at {url} was not reached: {said}") from error
        finally:
            self._receiving -= size
        if answer.status != httpx.codes.OK:
            raise refusal(answer)
        return answer.body.lstrip(SIGN_OF_LIFE)


def refusal(answer: HttpAnswer) -> MissedError:
    """What a status other than 200 means; the beginning of the body is shown."""
    status = answer.status
    if (
        status == httpx.codes.SERVICE_UNAVAILABLE
        and answer.headers.get(DRAINING_HEADER.lower()) == "1"
    ):
        return MissedError("the runner is draining", counts=False)
    said = "".join(
        letter if letter.isprintable() else " "
        for letter in answer.body[: 4 * SAID_LENGTH_MAX].decode(errors="replace")
    )
    said = said.strip()[:SAID_LENGTH_MAX]
    told = f"the runner answered {status}"
    if status in (httpx.codes.UNAUTHORIZED, httpx.codes.FORBIDDEN):
        told += ": it does not accept the signature; engine and runner need one signing key"
    elif status == httpx.codes.NOT_FOUND:
        told += ": no such path, or no such workflow; check the app's URL and what it serves"
    elif 300 <= status < 400:
        told += ": redirects are not followed; register the final URL"
    return MissedError(f"{told} ({said})" if said else told)
