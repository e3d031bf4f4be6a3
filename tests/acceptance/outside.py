"""What a program of somebody else's does with our topics: it imports nothing of ours.

    python tests/acceptance/outside.py localhost:9092 http://127.0.0.1:8420 order.created

Produces an event in Avro and one in JSON, then prints the outcomes of both as JSON lines.
"""

import io
import json
import sys
import urllib.request

import fastavro
from confluent_kafka import Consumer, Producer


def schema_of(url: str) -> tuple[int, dict]:
    """Number and schema at an address of the registry that the engine's API is."""
    with urllib.request.urlopen(url, timeout=10) as answer:
        found = json.load(answer)
    return found.get("id", 0), fastavro.parse_schema(json.loads(found["schema"]))


def produce(kafka: str, api: str, name: str, prefix: str = "") -> list[str]:
    """Send an event in Avro and one in JSON; their ids."""
    number, schema = schema_of(f"{api}/subjects/duraton.public.Event/versions/latest")
    body = io.BytesIO()
    event = {"id": "outside-avro", "name": name, "data": '{"orderId": 1}', "ts": 1790000000000}
    fastavro.schemaless_writer(body, schema, event)
    producer = Producer({"bootstrap.servers": kafka})
    framed = b"\0" + number.to_bytes(4, "big") + body.getvalue()
    producer.produce(f"{prefix}duraton.events", framed, key="customer-7")
    plain = {"id": "outside-json", "name": name, "data": {"orderId": 2}}
    producer.produce(f"{prefix}duraton.events", json.dumps(plain))
    producer.flush(10)
    return [event["id"], plain["id"]]


def outcomes(kafka: str, api: str, count: int, prefix: str = "") -> list[dict]:
    """The first so many outcomes."""
    consumer = Consumer({"bootstrap.servers": kafka, "group.id": "outside",
                         "auto.offset.reset": "earliest", "isolation.level": "read_committed"})  # fmt: skip
    consumer.subscribe([f"{prefix}duraton.outcomes"])
    found = []
    while len(found) < count and (record := consumer.poll(30)):
        raw = record.value()
        _, schema = schema_of(f"{api}/schemas/ids/{int.from_bytes(raw[1:5], 'big')}")
        found.append(fastavro.schemaless_reader(io.BytesIO(raw[5:]), schema))
    consumer.close()
    return found


if __name__ == "__main__":
    kafka, api, name, prefix = (*sys.argv[1:], "")[:4]
    sent = produce(kafka, api, name, prefix)
    for outcome in outcomes(kafka, api, len(sent), prefix):
        print(json.dumps(outcome))
