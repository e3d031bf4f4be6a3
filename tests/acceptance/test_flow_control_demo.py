"""The flow control demos as a user runs them."""

import re
import subprocess
import sys

import pytest
from kill_rig import ROOT, Rig, processes_about

FOLDER = ROOT / "examples" / "flow_control"
NAMES = (
    "concurrency", "throttle", "rateLimit", "debounce", "batch", "singleton", "idempotency",
    "together-wait", "together-refuse", "together-stop", "together-join", "tokenThrottle", "cap",
    "budget", "priority",
)  # fmt: skip


def show(tmp_path, *arguments):
    return subprocess.run(
        [sys.executable, str(FOLDER / "show.py"), *arguments],
        capture_output=True,
        text=True,
        env=Rig(tmp_path, []).environment() | {"TMPDIR": str(tmp_path)},
        timeout=150,
        check=False,
    )


@pytest.mark.timeout(180)  # three real processes, on a machine that may be busy
def test_every_shape_holds(tmp_path):
    ran = show(tmp_path)
    said = ran.stdout
    assert (ran.returncode, ran.stderr) == (0, ""), said + ran.stderr
    assert tuple(re.findall(r"^([a-zA-Z-]+)  [A-Z]", said, re.MULTILINE)) == NAMES
    assert "Every shape holds." in said
    assert "NO " not in said
    # What the charts count does not depend on the machine's speed.
    assert re.search(r"dropped \|[ 1]+\| 7\n", said)
    assert re.search(r"invoice.*\n.*\n +ada at work \|[ 123]+\| at most 3\n", said)
    assert said.isascii()
    url = re.search(r"http://127\.0\.0\.1:\d+", said)[0]
    assert not processes_about(url)
    assert not processes_about(str(tmp_path))
    assert not list(tmp_path.iterdir())


@pytest.mark.timeout(120)  # as above
def test_it_takes_an_engine_that_runs(tmp_path):
    rig = Rig(tmp_path, ["--data", str(tmp_path / "data")])
    try:
        rig.start("engine")
        rig.wait_ready()
        rig.start("worker", FOLDER / "workflows.py")
        rig.wait_registered()
        ran = show(tmp_path, "--url", rig.url, "--only", "idempotency", "--only", "priority")
        assert ran.returncode == 0, ran.stdout + ran.stderr
        assert re.findall(r"^([a-zA-Z-]+)  [A-Z]", ran.stdout, re.MULTILINE) == [
            "idempotency",
            "priority",
        ]
        left = rig.run("project", "get", "--url", rig.url, "--json")
        assert left.stdout == '{"ceiling": 0}\n'
        rig.check_alive()
    finally:
        rig.end()


def test_without_an_engine_it_says_what_to_do(tmp_path):
    ran = show(tmp_path, "--url", "http://127.0.0.1:1", "--only", "cap")
    assert ran.returncode == 1
    assert "start one with `duraton dev`" in ran.stdout
    assert show(tmp_path, "--only", "nothing").returncode == 2
