"""What must be complete: appliers, table numbers, error codes, the public surface."""

import ast
import importlib
import pkgutil
import re
from collections import defaultdict
from pathlib import Path

from house import PACKAGES, ROOT, modules

from duraton_schemas.catalog import record_types
from duraton_schemas.records.common import Fact
from duraton_streams.state.table import Table

SURFACE = Path(__file__).parent / "public_surface.txt"
ERRORS_PAGE = ROOT / "docs" / "reference" / "errors.md"

SHARED_CODES = {
    "overloaded": "the processor's refusal, as HTTP answers it",
    "workflow-unknown": "the engine's refusal, as HTTP answers it",
}


def test_every_fact_has_an_applier():
    appliers = importlib.import_module("duraton_engine.appliers").APPLIERS
    facts = {kind for kind in record_types().values() if issubclass(kind, Fact)}
    missing = sorted(kind.__name__ for kind in facts - set(appliers))
    assert not missing, f"write an applier (docs/internals/recipes.md): {missing}"
    assert set(appliers) == facts


def test_table_numbers_are_never_shared():
    names = defaultdict(list)
    for package in ("duraton_streams", "duraton_engine"):
        for module in every_module(package):
            for table in vars(module).values():
                if isinstance(table, Table):
                    assert 1 <= table.number <= 255, table
                    if table.name not in names[table.number]:
                        names[table.number].append(table.name)
    assert names
    assert not {number: shared for number, shared in names.items() if len(shared) > 1}


def every_module(package):
    root = importlib.import_module(package)
    yield root
    for found in pkgutil.walk_packages(root.__path__, package + "."):
        if not found.name.endswith("__main__"):
            yield importlib.import_module(found.name)


def codes():
    """Each stable code, and the packages that define it."""
    found = defaultdict(set)
    for package in PACKAGES:
        errors = importlib.import_module(f"{package}.errors")
        for name, value in vars(errors).items():
            if isinstance(value, type) and value.__module__ == errors.__name__:
                if "code" in vars(value):
                    found[value.code].add((package, name))
            elif name.isupper() and isinstance(value, str) and re.fullmatch(r"[a-z0-9-]+", value):
                found[value].add((package, name))
    return found


def test_error_codes_mean_one_thing():
    twice = {
        code: sorted(places)
        for code, places in codes().items()
        if len(places) > 1 and code not in SHARED_CODES
    }
    assert not twice, f"a code means one thing over all components: {twice}"


def test_every_error_says_what_to_do():
    for package in PACKAGES:
        errors = importlib.import_module(f"{package}.errors")
        for value in vars(errors).values():
            if isinstance(value, type) and value.__module__ == errors.__name__:
                if hasattr(value, "code"):
                    assert re.fullmatch(r"[a-z0-9-]+", value.code), value
                    assert value.advice.endswith("."), value
                assert value.__doc__, value


CODE_PLACES = {
    "CommandFailedError": 0,
    "ConnectionRefusedByEngineError": 0,
    "HelloRefusedError": 1,
    "Trouble": 0,
    "_drop": 2,
    "_problem": 2,
    "_refused": 0,
    "close_reason": 0,
}
"""Which argument of these is the code, where it is written out."""


def literal_codes():
    """Codes that stand where an error or a refusal is made."""
    for module in modules():
        for node in ast.walk(module.tree):
            value = None
            if isinstance(node, ast.keyword) and node.arg == "code":
                value = node.value
            elif isinstance(node, ast.Call):
                name = node.func.attr if isinstance(node.func, ast.Attribute) else None
                name = node.func.id if isinstance(node.func, ast.Name) else name
                place = CODE_PLACES.get(name)
                if place is not None and len(node.args) > place:
                    value = node.args[place]
            text = value.value if isinstance(value, ast.Constant) else None
            if isinstance(text, str) and re.fullmatch(r"[a-z0-9-]+", text):
                yield text


def test_every_code_has_a_section_in_the_reference():
    sections = set(re.findall(r"^### `([^`]+)`\n\n\S", ERRORS_PAGE.read_text(), re.MULTILINE))
    missing = sorted((set(codes()) | set(literal_codes())) - sections)
    assert not missing, f"run `make docs`; see OTHER_CODES in its script: {missing}"


def test_the_reference_is_as_the_code_has_it():
    before = ERRORS_PAGE.read_text()
    script = importlib.import_module("scripts.write_errors_page")
    assert script.page() == before, "run `make docs`"


def test_errors_are_defined_in_errors_modules():
    wrong = []
    for package in PACKAGES:
        for module in every_module(package):
            for name, value in vars(module).items():
                if (
                    isinstance(value, type)
                    and issubclass(value, BaseException)
                    and value.__module__ == module.__name__
                    and not module.__name__.endswith(".errors")
                    and not name.startswith("_")
                ):
                    wrong.append(f"{module.__name__}.{name}")
    assert not wrong, f"one errors.py a component holds its tree: {wrong}"


def test_the_public_surface_is_as_agreed():
    sdk = importlib.import_module("duraton")
    agreed = [line for line in SURFACE.read_text().splitlines() if line]
    assert sorted(sdk.__all__) == sorted(agreed), (
        "people's programs import these names: change public_surface.txt knowingly, "
        "and CHANGELOG.md with it"
    )


def test_every_public_name_is_there_and_documented():
    sdk = importlib.import_module("duraton")
    undocumented = [
        name
        for name in sdk.__all__
        if callable(getattr(sdk, name)) and not getattr(sdk, name).__doc__
    ]
    assert not undocumented
