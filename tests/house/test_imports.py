"""Imports go one way, and the engine is a function of what it is given (DESIGN 1)."""

import ast

import pytest
from house import PACKAGES, imports, modules

MAY_IMPORT = {
    "duraton_schemas": set(),
    "duraton_streams": {"duraton_schemas"},
    "duraton_engine": {"duraton_schemas", "duraton_streams"},
    "duraton_api": {"duraton_schemas", "duraton_streams", "duraton_engine"},
    "duraton": {"duraton_schemas"},
}

EXCEPTIONS = {
    "duraton.testing": (
        {"duraton_api", "duraton_engine", "duraton_streams"},
        "the testing kit runs the whole engine in the test's process",
    ),
    "duraton_api.cli": ({"duraton"}, "`duraton dev` and `worker` run a user's workflows"),
}


def exceptions_of(module):
    for prefix, (allowed, _) in EXCEPTIONS.items():
        if module == prefix or module.startswith(prefix + "."):
            return allowed
    return set()


@pytest.mark.parametrize("package", PACKAGES)
def test_imports_go_one_way(package):
    wrong = []
    for module in modules():
        if module.package != package:
            continue
        allowed = MAY_IMPORT[package] | {package} | exceptions_of(module.name)
        for line, name in imports(module):
            top = name.split(".")[0]
            if top in PACKAGES and top not in allowed:
                wrong.append(f"{module.place}:{line} imports {name}")
    assert not wrong, (
        "schemas <- streams <- engine <- api, and schemas <- sdk; move what both need "
        f"down to duraton_schemas, or pass it in: {wrong}"
    )


CLOCK = "the time is an argument: tx.now, or the fact's `at`"
RANDOM = "ids come from their origin: duraton_schemas.ids.run_id"
EFFECT = "hand an effect on (duraton_engine.effects); the node carries it out after the commit"
THREAD = "one partition decides in one thread; the node owns loops and threads"
STATE = "state is in tables (duraton_streams.state.table), read and written through tx.state"
QUIET = "raise, or put it into a fact: decisions are replayed, log lines are not"

BANNED_MODULES = {
    "time": CLOCK,
    "sched": CLOCK,
    "random": RANDOM,
    "secrets": RANDOM,
    "uuid": RANDOM,
    "numpy": RANDOM,
    "os": EFFECT,
    "io": EFFECT,
    "pathlib": EFFECT,
    "shutil": EFFECT,
    "tempfile": EFFECT,
    "socket": EFFECT,
    "ssl": EFFECT,
    "select": EFFECT,
    "subprocess": EFFECT,
    "signal": EFFECT,
    "http": EFFECT,
    "urllib": EFFECT,
    "httpx": EFFECT,
    "requests": EFFECT,
    "aiohttp": EFFECT,
    "starlette": EFFECT,
    "uvicorn": EFFECT,
    "websockets": EFFECT,
    "confluent_kafka": "tx.emit and tx.send; the processor writes them in one transaction",
    "faust": "rollups are downstream of the truth (duraton_streams.rollups)",
    "fastavro": "records are typed here; duraton_schemas.codec has their bytes",
    "rocksdict": STATE,
    "sqlite3": STATE,
    "shelve": STATE,
    "asyncio": THREAD,
    "threading": THREAD,
    "multiprocessing": THREAD,
    "concurrent": THREAD,
    "queue": THREAD,
    "logging": QUIET,
    "warnings": QUIET,
    "sys": QUIET,
}
BANNED_PARTS = {
    "duraton_streams.logs": "tx.emit and tx.send",
    "duraton_streams.partition.clock": CLOCK,
    "duraton_streams.partition.processor": "the processor calls the engine, never the reverse",
    "duraton_streams.state.store": STATE,
    "duraton_streams.state.rocksdb": STATE,
}
ALLOWED_PARTS = {
    # The topics' names and the form of a record: no log is reached by them.
    "duraton_streams.logs.base",
}
BANNED_NAMES = {
    "open": EFFECT,
    "print": QUIET,
    "input": EFFECT,
    "eval": "write the code down",
    "exec": "write the code down",
    "hash": "Python's hash of text differs in every process: duraton_schemas.slots.slot_of",
    "id": "the address of an object differs in every process: compare what it holds",
}
BANNED_ATTRIBUTES = {"now": CLOCK, "utcnow": CLOCK, "today": CLOCK}
DATE_CLASSES = {"datetime", "date", "dt"}


def engine_modules():
    return [m for m in modules() if m.package == "duraton_engine"]


def test_the_engine_imports_no_clock_chance_broker_or_io():
    wrong = []
    for module in engine_modules():
        for line, name in imports(module):
            why = BANNED_MODULES.get(name.split(".")[0])
            for part, instead in BANNED_PARTS.items():
                if name in ALLOWED_PARTS:
                    continue
                if name == part or name.startswith(part + "."):
                    why = instead
            if why:
                wrong.append(f"{module.place}:{line} imports {name}. Instead: {why}")
    assert not wrong, "\n".join(wrong)


def test_the_engine_calls_nothing_that_differs_when_replayed():
    wrong = []
    for module in engine_modules():
        for node in ast.walk(module.tree):
            if not isinstance(node, ast.Call):
                continue
            called = node.func
            if isinstance(called, ast.Name) and called.id in BANNED_NAMES:
                wrong.append(
                    f"{module.place}:{node.lineno} calls {called.id}(). "
                    f"Instead: {BANNED_NAMES[called.id]}"
                )
            elif (
                isinstance(called, ast.Attribute)
                and called.attr in BANNED_ATTRIBUTES
                and isinstance(called.value, ast.Name)
                and called.value.id in DATE_CLASSES
            ):
                wrong.append(
                    f"{module.place}:{node.lineno} calls {called.value.id}.{called.attr}(). "
                    f"Instead: {BANNED_ATTRIBUTES[called.attr]}"
                )
    assert not wrong, "\n".join(wrong)


def test_the_stream_layer_knows_nothing_of_workflows():
    words = ("duraton_schemas.options", "duraton_schemas.wire")
    wrong = [
        f"{module.place}:{line} imports {name}"
        for module in modules()
        if module.package == "duraton_streams"
        for line, name in imports(module)
        if name.startswith(words)
    ]
    assert not wrong, wrong


def test_the_sdk_needs_nothing_of_the_engine_to_be_imported():
    # What users import in their own process stays light and without a broker client.
    heavy = {"confluent_kafka", "rocksdict", "fastavro", "faust", "sqlite3"}
    wrong = [
        f"{module.place}:{line} imports {name}"
        for module in modules()
        if module.package == "duraton" and not module.name.startswith("duraton.testing")
        for line, name in imports(module)
        if name.split(".")[0] in heavy
    ]
    assert not wrong, wrong
