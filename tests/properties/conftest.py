import pytest

from duraton.testing import engine as testing_engine


@pytest.fixture(autouse=True)
def short_answers(monkeypatch):
    """After a doubt an answer may never come; who asks again is known by a dedupe id."""
    monkeypatch.setattr(testing_engine, "ANSWER_TIMEOUT_S", 1.0)
