"""Kill the engine with SIGKILL at random moments of a load; the worker lives on.

    python tests/acceptance/kill_engine.py --runs 5000 --kills 50 --seed 1

Prints what was found as JSON; status 0 only if every run completed, each step was recorded
once and executed once, and the state is what the journal gives.
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


def kill_engine(home: Path, runs: int, kills: int, seed: int) -> dict[str, object]:
    rig = Rig(home, ["--data", str(home / "data")])
    began = time.monotonic()
    with Load(rig, runs, seed) as load:
        load.kill_often("engine", kills, WINDOW_S)
        load.finish()
        found = summary(load, kills, began)
    # The worker lived on, and what lives is adopted: nothing at all may have run twice.
    found["ok"] = bool(found["ok"]) and found["duplicates"] == 0
    return {"killed": "engine", "seed": seed, **found}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--runs", type=int, default=5_000)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", type=Path, help="a directory to be kept, for looking at")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="duraton-kill-") as made:
        found = kill_engine(given.keep or Path(made), given.runs, given.kills, given.seed)
    print(json.dumps(found, indent=2))
    sys.exit(0 if found["ok"] else 1)


if __name__ == "__main__":
    main()
