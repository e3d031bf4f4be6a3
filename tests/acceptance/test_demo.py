"""`make demo` in short, and its example as a user would try it."""

import re
import signal
import subprocess
import sys
import time

import pytest
from kill_rig import ROOT, Rig, processes_about

DEMO = ROOT / "examples" / "demo" / "demo.py"


def demo(tmp_path, *arguments):
    return subprocess.Popen(
        [sys.executable, str(DEMO), "--keep", str(tmp_path / "kept"), *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=Rig(tmp_path, []).environment(),
    )


def children_of(folder):
    return processes_about(f"{folder}/data")


@pytest.mark.timeout(180)  # three real processes, on a machine that may be busy
def test_the_demo_ends_with_a_proof(tmp_path):
    ran = demo(tmp_path, "--records", "400")
    said, _ = ran.communicate(timeout=150)
    assert ran.returncode == 0, said
    assert "kill -9 of the engine" in said
    assert len(re.findall(r"^  yes ", said, re.MULTILINE)) == 6
    assert "NO " not in said
    assert not children_of(tmp_path / "kept")


@pytest.mark.timeout(120)  # as above
def test_a_demo_that_is_stopped_leaves_no_process(tmp_path):
    ran = demo(tmp_path, "--records", "4000")
    until = time.monotonic() + 60
    while not children_of(tmp_path / "kept") and time.monotonic() < until:
        time.sleep(0.05)
    ran.send_signal(signal.SIGTERM)
    said, _ = ran.communicate(timeout=60)
    assert ran.returncode == 130, said
    assert "stopped" in said
    assert "Traceback" not in said
    assert not children_of(tmp_path / "kept")
