"""Kill the Kafka broker with SIGKILL in the middle of a load, and start it again.

    python tests/acceptance/kafka_broker_kill.py --runs 5000 --seed 1

Engine and worker live on. Prints what was found as JSON; status 0 only if every run
completed, each step was recorded once and executed once, and the state is what the journal
gives. It needs a JDK and Maven, as the tests on Kafka do.
"""

import argparse
import json
import random
import sys
import tempfile
import time
from pathlib import Path

from kill_rig import POST_EVENTS, ROOT, Kill, Load, Rig, summary

sys.path.insert(0, str(ROOT))

from tests.kafka_broker import Broker

DOWN_S_MAX = 3.0
"""The broker is away for at most that long."""
WINDOW_S = 0.3
"""The kill comes within that time after a POST began to be sent."""
PARTITIONS = 12


def kill_broker(
    home: Path, runs: int, seed: int, broker: Broker, partitions: int = PARTITIONS
) -> dict[str, object]:
    """Run the load on a broker that has been started; it is killed once and started again."""
    chance = random.Random(seed)
    log = ["--data", str(home / "data"), "--kafka", broker.bootstrap, "--prefix", f"kill{seed}."]
    rig = Rig(home, log, partitions=partitions)
    began = time.monotonic()
    with Load(rig, runs, seed) as load:
        load.sender.allowed = runs
        at = chance.randrange(runs // 3, 2 * runs // 3)
        while len(load.tail.ended) < at or load.under_way < POST_EVENTS:
            load.look()
            rig.check_alive()
            time.sleep(0.002)
        load.watch(chance.uniform(0, WINDOW_S))
        under_way = load.under_way
        broker.kill()
        killed = time.monotonic()
        load.watch(chance.uniform(0.1, DOWN_S_MAX))
        broker.start()
        ready = time.monotonic() - killed
        load.wait_going()
        load.kills.append(Kill(under_way, ready, time.monotonic() - killed))
        load.finish()
        found = summary(load, 1, began)
    # Engine and worker lived on: nothing at all may have run twice.
    found["ok"] = bool(found["ok"]) and found["duplicates"] == 0
    return {"killed": "broker", "seed": seed, "partitions": partitions, **found}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--runs", type=int, default=5_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--partitions", type=int, default=PARTITIONS)
    parser.add_argument("--keep", type=Path, help="a directory to be kept, for looking at")
    given = parser.parse_args()
    if given.runs < 3 * POST_EVENTS:
        parser.error(f"--runs: at least {3 * POST_EVENTS}, so that there is a middle")
    with tempfile.TemporaryDirectory(prefix="duraton-kill-") as made:
        home = given.keep or Path(made)
        broker = Broker(Path(made) / "kafka")
        broker.start()
        try:
            found = kill_broker(home, given.runs, given.seed, broker, given.partitions)
        finally:
            broker.kill()
    print(json.dumps(found, indent=2))
    sys.exit(0 if found["ok"] else 1)


if __name__ == "__main__":
    main()
