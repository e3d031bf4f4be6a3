"""What a runner's hello must be, and the registration of its apps."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from duraton_api.errors import PendingError, UnavailableError
from duraton_api.runners.errors import HelloRefusedError
from duraton_api.runners.settings import HubSettings
from duraton_engine.effects import Reply
from duraton_engine.room import SERVED_PREFIX
from duraton_schemas.errors import OptionsError
from duraton_schemas.options import AppOptions, read_app
from duraton_schemas.wire import closing
from duraton_schemas.wire.frames import PROTOCOL_VERSION, Hello
from duraton_streams.errors import StreamError

_log = logging.getLogger("duraton.runners")

NAME_LENGTH_MAX = 200
"""Letters of a runner's name and of a boot id."""


class Greeting:
    """Checks hellos and registers their apps.

    Args:
        register: Registers an app, given as JSON text.
        settings: How much one hello may state.
    """

    def __init__(self, register: Callable[[str], Awaitable[Reply]], settings: HubSettings) -> None:
        self._register = register
        self._settings = settings

    def check(self, hello: Hello) -> None:
        """Refuse what cannot work, before anything is registered.

        Raises:
            HelloRefusedError: The hello's version, names or numbers.
        """
        if hello.version != PROTOCOL_VERSION:
            raise HelloRefusedError(
                closing.CLOSE_VERSION,
                "protocol-version",
                f"this engine speaks version {PROTOCOL_VERSION}, the runner {hello.version}",
            )
        boot_ok = 0 < len(hello.boot) <= NAME_LENGTH_MAX
        if not boot_ok or hello.boot.startswith(SERVED_PREFIX):
            raise _refused(f"{hello.boot[:NAME_LENGTH_MAX]!r} is no boot id")
        if not 0 < len(hello.name) <= NAME_LENGTH_MAX or not hello.name.isprintable():
            raise _refused(f"a runner's name has 1 to {NAME_LENGTH_MAX} letters that can be shown")
        if hello.capacity < 1:
            raise _refused("the capacity must be at least 1")
        if not 0 < len(hello.apps) <= self._settings.apps_max:
            raise _refused(f"a runner offers 1 to {self._settings.apps_max} apps")
        if len(hello.tokens) > self._settings.tokens_max:
            raise _refused(f"more than {self._settings.tokens_max} live invocations")

    async def register(self, hello: Hello) -> frozenset[tuple[str, str]]:
        """Register all apps of a hello; one that is refused refuses the runner.

        Returns:
            The (app, workflow) pairs that the runner executes.

        Raises:
            HelloRefusedError: An app cannot work, or the engine cannot register now.
        """
        apps = [self._read(text) for text in hello.apps]
        if len({app.name for app in apps}) < len(apps):
            raise _refused("two apps have one name")
        replies = await asyncio.gather(*(self._ask(text) for text in hello.apps))
        for app, reply in zip(apps, replies, strict=True):
            if not reply.ok:
                raise HelloRefusedError(
                    closing.CLOSE_REFUSED,
                    reply.code or "options-refused",
                    reply.message or f"app {app.name!r} was refused",
                )
            for warning in reply.warnings:
                _log.warning("app %s: %s", app.name, warning)
        return frozenset((app.name, workflow.name) for app in apps for workflow in app.workflows)

    def _read(self, text: str) -> AppOptions:
        try:
            return read_app(text)
        except OptionsError as error:
            raise HelloRefusedError(closing.CLOSE_REFUSED, error.code, str(error)) from error

    async def _ask(self, text: str) -> Reply:
        try:
            return await self._register(text)
        except PendingError as error:
            message = "the registration was not answered in time"
            raise HelloRefusedError(closing.CLOSE_LATER, "registration-late", message) from error
        except (StreamError, UnavailableError) as error:
            raise HelloRefusedError(closing.CLOSE_LATER, error.code, str(error)) from error


def _refused(message: str) -> HelloRefusedError:
    return HelloRefusedError(closing.CLOSE_REFUSED, "hello-refused", message)
