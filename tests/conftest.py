pytest_plugins = ["tests.fixtures_logs", "tests.kafka_broker"]
