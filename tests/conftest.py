from duraton.testing.host import SHADOW_DEFAULT

pytest_plugins = ["tests.fixtures_logs", "tests.kafka_broker"]

# Every scenario of ours also proves that its journal gives the state it was decided on.
SHADOW_DEFAULT.on = True
