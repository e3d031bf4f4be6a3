"""`log verify` and `log rebuild`: the state and the view against the journal."""

import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from duraton_api.cli import show
from duraton_api.cli.errors import CommandFailedError
from duraton_api.cli.options import data_folder
from duraton_api.cli.records import open_log
from duraton_api.node.defaults import LOG_FILE, STATE_FOLDER, VIEW_FILE
from duraton_streams.errors import StoreInUseError
from duraton_streams.logs.base import Log

if TYPE_CHECKING:
    from duraton_streams.state.overlay import State
    from duraton_streams.state.rocksdb import RocksMemory


@dataclass
class Verified:
    """What a verification found.

    Attributes:
        ok: Whether there is no problem.
        plain: All of it as JSON values.
        lines: The same for people.
    """

    ok: bool
    plain: dict[str, Any]
    lines: list[str] = field(default_factory=list)


def verify_all(data: Path, kafka: str | None, prefix: str) -> Verified:
    """Verify a cluster: its journal always, its stored state where no engine holds it.

    Raises:
        CommandFailedError: There is no log.
        StreamError: The log cannot be read at all.
    """
    from duraton_api.verification import verify_cluster  # noqa: PLC0415 other commands need none
    from duraton_streams.state.rocksdb import RocksMemory  # noqa: PLC0415 as above

    log = open_log(data, kafka, prefix)
    folder = data_folder(data, kafka) / STATE_FOLDER
    with ExitStack() as stack:
        stack.callback(log.close)
        memory = RocksMemory()
        held: list[int] = []

        def stored(partition: int) -> "State | None":
            try:
                return stack.enter_context(_state(folder / str(partition), memory))
            except StoreInUseError:
                held.append(partition)
                return None
            except FileNotFoundError:
                return None

        scratch = stack.enter_context(tempfile.TemporaryDirectory(prefix="duraton-verify-"))
        numbers = iter(range(log.partitions))
        with show.progress("verifying") as meter:
            report = verify_cluster(
                log,
                stored=stored,
                open_scratch=lambda: _store(Path(scratch) / str(next(numbers)), memory),
                progress=meter,
            )
        plain = msgspec.to_builtins(report, enc_hook=_plain)
        plain["ok"] = report.ok
        plain["stateCompared"] = not held
    return Verified(report.ok, plain, _lines(report, held))


def rebuild_all(data: Path, kafka: str | None, prefix: str, *, state: bool) -> dict[str, Any]:
    """Build the view, and the state unless told otherwise, anew from the log.

    Raises:
        CommandFailedError: There is no log.
        LogInUseError: An engine runs on it.
        StreamError: The log cannot be read, or a store is held.
    """
    from duraton_api.view import View  # noqa: PLC0415 as above
    from duraton_streams.state.rocksdb import RocksMemory  # noqa: PLC0415 as above

    folder = data_folder(data, kafka)
    log = open_owned(data, kafka, prefix)
    built: list[dict[str, Any]] = []
    try:
        memory = RocksMemory()
        if state:
            with show.progress("rebuilding the state") as meter:
                built = [
                    _rebuild(log, partition, folder, memory, meter)
                    for partition in range(log.partitions)
                ]
        folder.mkdir(parents=True, exist_ok=True)
        with show.progress("rebuilding the view") as meter:
            view = View(folder / VIEW_FILE, log)
            try:
                view.rebuild(progress=meter)
            finally:
                view.close()
    finally:
        log.close()
    return {"partitions": built, "view": True}


def open_owned(data: Path, kafka: str | None, prefix: str) -> Log:
    """A cluster's log while no engine runs on it, as far as this machine can tell.

    Raises:
        CommandFailedError: There is no log.
        LogInUseError: An engine runs on it.
    """
    if kafka is not None:
        return open_log(data, kafka, prefix)
    open_log(data, None, "").close()
    from duraton_streams.logs.sqlite import SqliteLog  # noqa: PLC0415 as above

    return SqliteLog(data / LOG_FILE)


def _rebuild(
    log: Log, partition: int, folder: Path, memory: "RocksMemory", meter: show.Meter
) -> dict[str, Any]:
    from duraton_engine.appliers import APPLIERS  # noqa: PLC0415 as above
    from duraton_engine.state.tables import TABLES  # noqa: PLC0415 as above
    from duraton_schemas.codec import Codec  # noqa: PLC0415 as above
    from duraton_streams.partition.verify import rebuild  # noqa: PLC0415 as above

    path = folder / STATE_FOLDER / str(partition)
    path.mkdir(parents=True, exist_ok=True)
    standing = rebuild(
        log,
        partition,
        APPLIERS,
        TABLES,
        Codec(),
        lambda: _store(path, memory),
        progress=lambda reached, end: meter(partition, reached, end),
    )
    return {"partition": partition, "journal": standing.journal, "epoch": standing.epoch}


def _store(path: Path, memory: "RocksMemory") -> Any:
    from duraton_streams.state.rocksdb import RocksStore  # noqa: PLC0415 as above

    return RocksStore(path, memory)


@contextmanager
def _state(path: Path, memory: "RocksMemory") -> Iterator["State"]:
    """A partition's stored state.

    Raises:
        FileNotFoundError: There is none.
        StoreInUseError: An engine holds it.
    """
    from duraton_engine.state.tables import TABLES  # noqa: PLC0415 as above
    from duraton_streams.state.overlay import State  # noqa: PLC0415 as above

    if not path.is_dir():
        raise FileNotFoundError(path)
    state = State(_store(path, memory), TABLES)
    try:
        yield state
    finally:
        state.close()


def _lines(report: Any, held: list[int]) -> list[str]:
    lines = []
    for part in report.partitions:
        against = "no stored state"
        if part.partition in held:
            against = "the engine runs: its state was not compared"
        elif part.compared_at is not None:
            against = f"the stored state is equal in {part.rows:,} rows"
            if part.problem_count:
                against = f"{part.problem_count} problems"
        lines.append(
            f"partition {part.partition}: {part.facts:,} facts in {part.transactions:,} "
            f"transactions by {part.epoch} owners; {against}"
        )
    lines += [f"{each.place}: {each.message} ({each.code})" for each in report.problems]
    if report.problem_count > len(report.problems):
        lines.append(f"... {report.problem_count} problems in all")
    lines += _figures(report.figures)
    lines.append("equal" if report.ok else f"NOT equal: {report.problem_count} problems")
    return lines


def _figures(figures: Any) -> list[str]:
    ended = ", ".join(f"{count:,} {status}" for status, count in sorted(figures.ended.items()))
    events = f"events: {figures.events:,} recorded, {figures.repeats:,} repeats dropped"
    runs = f"runs: {figures.runs:,} ({ended or 'none ended'}, {figures.unended:,} unended)"
    steps = f"steps: {figures.steps:,} completed, each recorded once"
    return [
        f"{events}; {figures.offers_met:,} of {figures.offers:,} matches led to one run each",
        f"{runs}, {figures.failure_runs:,} onFailure executions, {figures.starts:,} invocations",
        f"{steps}; {figures.failed_attempts:,} failed attempts, {figures.discarded:,} late answers",
    ]


def _plain(value: Any) -> Any:
    if hasattr(value, "__dict__"):
        return vars(value)
    raise CommandFailedError("internal", f"a {type(value).__name__} has no JSON form")
