"""What librdkafka says while a broker is away."""

import logging
import time

from confluent_kafka import Consumer
from tests.kafka_broker import free_port

from duraton_streams.logs.kafka.seldom import AGAIN_S, Seldom
from duraton_streams.logs.kafka.settings import LOGGER, KafkaSettings, consumer_config, polled


def said(filter_, kind):
    record = logging.LogRecord(
        "duraton.kafka", logging.ERROR, "", 0, "%s [%s] %s", (kind, "client", "refused"), None
    )
    return record.getMessage() if filter_.filter(record) else None


def test_a_kind_is_said_once_in_a_while_and_then_how_often_it_was():
    now = [100.0]
    seldom = Seldom(lambda: now[0])
    assert said(seldom, "FAIL") == "FAIL [client] refused"
    assert [said(seldom, "FAIL") for _ in range(3)] == [None] * 3
    assert said(seldom, "GETPID") == "GETPID [client] refused"
    now[0] += AGAIN_S
    assert said(seldom, "FAIL") == "FAIL [client] refused (and 3 more of its kind before)"
    assert said(seldom, "FAIL") is None


def test_messages_of_our_own_always_pass():
    seldom = Seldom()
    record = logging.LogRecord("x", logging.WARNING, "", 0, "reading: %s", ("late",), None)
    assert seldom.filter(record)
    assert seldom.filter(record)


def test_a_broker_that_is_away_is_one_line_whatever_the_clients(caplog, monkeypatch):
    monkeypatch.setattr(LOGGER, "filters", [Seldom()])
    settings = KafkaSettings()
    config = consumer_config(
        f"127.0.0.1:{free_port()}", settings, "g", committed=True, fetch_wait_ms=25
    )
    clients = [Consumer(polled(config)) for _ in range(3)]
    deadline = time.monotonic() + 20
    with caplog.at_level(logging.INFO, LOGGER.name):
        while not caplog.records and time.monotonic() < deadline:
            for client in clients:
                client.poll(0.05)
        for _ in range(5):
            for client in clients:
                client.poll(0.05)
    for client in clients:
        client.close()
    assert sum(record.args[0] == "FAIL" for record in caplog.records) == 1
