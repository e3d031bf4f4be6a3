"""The pytest fixture `duraton`: a factory of engines with `Engine`'s arguments."""

from typing import Any

import pytest


@pytest.fixture
def duraton() -> Any:
    """A factory of engines with the arguments of `Engine`."""
    # Imported here, so that tests that do not use it do not load the engine.
    from duraton.testing.engine import Engine  # noqa: PLC0415 - as the line above says

    return Engine
