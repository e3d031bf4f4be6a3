"""Other people's tools on our topics: the program beside this runs in a process without ours."""

import json
import subprocess
import sys
import uuid
from pathlib import Path

import pytest
from kill_rig import Rig

OUTSIDE = Path(__file__).with_name("outside.py")


@pytest.mark.kafka
@pytest.mark.timeout(180)  # an engine, a worker and a broker, on a machine that may be busy
def test_outcomes_are_read_and_events_produced_without_anything_of_ours(kafka_bootstrap, tmp_path):
    prefix = f"t{uuid.uuid4().hex[:10]}."
    log = ["--data", str(tmp_path / "data"), "--kafka", kafka_bootstrap, "--prefix", prefix]
    rig = Rig(tmp_path, log, partitions=2)
    try:
        rig.start("engine")
        rig.wait_ready()
        rig.start("worker", Path(__file__).with_name("outside_shop.py"))
        rig.wait_registered()
        # -I: neither the paths of this process nor the directory of the program.
        done = subprocess.run(
            [sys.executable, "-I", str(OUTSIDE), kafka_bootstrap, rig.url, "order.created", prefix],
            capture_output=True,
            text=True,
            timeout=90,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        found = {each["eventIds"][0]: each for each in map(json.loads, done.stdout.splitlines())}
        assert {key: (each["status"], each["output"]) for key, each in found.items()} == {
            "outside-avro": ("completed", '"order 1 shipped"'),
            "outside-json": ("completed", '"order 2 shipped"'),
        }
        assert {each["workflow"] for each in found.values()} == {"order.created"}
    finally:
        rig.end()


def test_the_program_imports_nothing_of_ours():
    lines = [line.split() for line in OUTSIDE.read_text().splitlines()]
    imported = {line[1] for line in lines if line[:1] in (["import"], ["from"])}
    assert imported == {"io", "json", "sys", "urllib.request", "fastavro", "confluent_kafka"}
