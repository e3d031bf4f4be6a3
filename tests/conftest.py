import os

from hypothesis import settings

from duraton.testing.host import SHADOW_DEFAULT

pytest_plugins = ["tests.fixtures_logs", "tests.kafka_broker"]

# Every scenario of ours also proves that its journal gives the state it was decided on.
SHADOW_DEFAULT.on = True

# What lands or rejects work must not depend on luck: there the same examples are tried
# each time. At the desk and in `make soak` they are new ones.
settings.register_profile("ci", derandomize=True, database=None, print_blob=True)
if os.environ.get("CI"):
    settings.load_profile("ci")
