"""Kill the worker with SIGKILL at random moments of a load; the engine lives on.

    python tests/acceptance/kill_worker.py --runs 5000 --kills 50 --seed 1

Three invokes in a row that come to nothing fail a run (the transport budget, P38), so kills
are far enough apart for a run that lost its worker to be answered by the next one.

A step whose code was under way when its worker died may run again; one that was recorded
never does. Prints what was found as JSON; status 0 only if that holds, every run completed
with each step recorded once, and the state is what the journal gives.
"""

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path

from kill_rig import Load, Rig, summary

WINDOW_S = 0.6
"""A kill comes within that time after a part of the load began to be sent."""
REST_S = 1.5
"""A lost invoke is made again after a second; by then it has been, and was answered."""


def kill_worker(
    home: Path, runs: int, kills: int, seed: int, name: str | None = "kill-worker"
) -> dict[str, object]:
    rig = Rig(home, ["--data", str(home / "data")], name=name)
    began = time.monotonic()
    with Load(rig, runs, seed) as load:
        load.kill_often("worker", kills, WINDOW_S, REST_S, early_every=0)
        load.finish()
        found = summary(load, kills, began)
    return {"killed": "worker", "named": name is not None, "seed": seed, **found}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--runs", type=int, default=5_000)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--nameless", action="store_true", help="give the workers no name")
    parser.add_argument("--keep", type=Path, help="a directory to be kept, for looking at")
    given = parser.parse_args()
    name = None if given.nameless else "kill-worker"
    with tempfile.TemporaryDirectory(prefix="duraton-kill-") as made:
        home = given.keep or Path(made)
        found = kill_worker(home, given.runs, given.kills, given.seed, name)
    print(json.dumps(found, indent=2))
    sys.exit(0 if found["ok"] else 1)


if __name__ == "__main__":
    main()
