import pytest

from duraton import load_target
from duraton.errors import (
    TargetEmptyError,
    TargetImportError,
    TargetKindError,
    TargetNotFoundError,
)

WORKFLOW = """
from duraton import App, define_workflow
async def handle(ctx): return None
one = define_workflow("one", handle)
two = define_workflow("two", handle)
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    import sys

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        del sys.modules[name]


def test_a_modules_workflows_form_an_app_of_its_name(folder):
    (folder / "parcels.py").write_text(WORKFLOW)
    for target in ("parcels", "parcels.py", str(folder / "parcels.py")):
        app = load_target(target)
        assert app.name == "parcels" and set(app.workflows) == {"one", "two"}


def test_an_app_is_taken_as_it_is(folder):
    (folder / "depot.py").write_text(WORKFLOW + 'app = App("shop", [one])\n')
    for target in ("depot", "depot:app", "depot.py:app"):
        app = load_target(target)
        assert app.name == "shop" and set(app.workflows) == {"one"}


def test_several_apps_want_a_name(folder):
    (folder / "many.py").write_text(WORKFLOW + 'a = App("a", [one])\nb = App("b", [two])\n')
    with pytest.raises(TargetKindError, match="a, b"):
        load_target("many")
    assert load_target("many:b").name == "b"


def test_what_is_not_there_says_so(folder):
    (folder / "parcels2.py").write_text(WORKFLOW + 'app = App("shop", [one])\n')
    for target in ("nowhere_at_all", "nowhere.py", "no-module!", "parcels2:nothing"):
        with pytest.raises(TargetNotFoundError):
            load_target(target)
    with pytest.raises(TargetKindError, match="WorkflowDefinition"):
        load_target("parcels2:one")


def test_a_failing_import_names_the_users_line(folder):
    (folder / "broken.py").write_text("import json\n\njson.loads('{')\n")
    with pytest.raises(TargetImportError, match=r"json|decoder"):
        load_target("broken")
    (folder / "broken2.py").write_text("x = 1\ny = x / 0\n")
    with pytest.raises(TargetImportError, match=r"broken2\.py:2: ZeroDivisionError"):
        load_target("broken2.py")
    (folder / "broken3.py").write_text("import not_installed_at_all\n")
    with pytest.raises(TargetImportError, match="not_installed_at_all"):
        load_target("broken3")
    (folder / "broken4.py").write_text("def x(:\n")
    with pytest.raises(TargetImportError, match=r"broken4\.py:1: SyntaxError"):
        load_target("broken4")


def test_a_module_without_workflows_says_so(folder):
    (folder / "bare.py").write_text("x = 1\n")
    with pytest.raises(TargetEmptyError):
        load_target("bare")
