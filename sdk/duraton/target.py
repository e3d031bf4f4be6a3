"""TARGET: `module:app`, `module` or `path/to/file.py`, as the command line takes it."""

import importlib
import importlib.util
import os
import sys
import traceback
from pathlib import Path
from types import ModuleType

from duraton.app import App
from duraton.errors import (
    TargetEmptyError,
    TargetImportError,
    TargetKindError,
    TargetNotFoundError,
)
from duraton.workflow import WorkflowDefinition


def load_target(target: str) -> App:
    """The app that a target names.

    A module without an App gives one of its own name, of the workflows it holds.

    Args:
        target: `module:app`, `module`, `path/to/file.py` or `path/to/file.py:app`.

    Raises:
        TargetNotFoundError: There is no such module, file or attribute.
        TargetImportError: The module raised while it was imported.
        TargetEmptyError: The module defines no workflow.
        TargetKindError: The attribute is no App, or the module holds several.
    """
    place, attribute = _split(target)
    if place.endswith(".py"):
        path = Path(place).resolve()
        module, name = _load_file(path), path.stem
    else:
        module, name = _load_module(place), place
    if attribute:
        return _named(module, name, attribute)
    return _found(module, name)


def _split(target: str) -> tuple[str, str]:
    place, colon, attribute = target.rpartition(":")
    # A drive letter's colon is no attribute's.
    if not colon or os.sep in attribute or "/" in attribute:
        return target, ""
    return place, attribute


def _load_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise TargetNotFoundError(f"there is no file {path}")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None, "a .py file has a loader"
    assert spec.loader is not None, "a .py file has a loader"
    _make_importable(path.parent)
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        sys.modules.pop(path.stem, None)
        raise _import_error(str(path), error) from error
    return module


def _load_module(name: str) -> ModuleType:
    if not name or any(not part.isidentifier() for part in name.split(".")):
        raise TargetNotFoundError(f"{name!r} is no module and no path to a .py file")
    _make_importable(Path.cwd())
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        missing = error.name or ""
        if name == missing or name.startswith(missing + "."):
            raise TargetNotFoundError(
                f"there is no module {missing!r} here or installed; looked from {Path.cwd()}"
            ) from error
        raise _import_error(name, error) from error
    except (Exception, SystemExit) as error:
        raise _import_error(name, error) from error


def _make_importable(folder: Path) -> None:
    text = str(folder)
    if text not in sys.path:
        sys.path.insert(0, text)


def _import_error(what: str, error: BaseException) -> TargetImportError:
    """The line of the user's own code that raised, instead of a long traceback."""
    if isinstance(error, SyntaxError):
        where = f"{error.filename}:{error.lineno}"
        return TargetImportError(f"{what} cannot be imported: {where}: SyntaxError: {error.msg}")
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if not frame.filename.startswith("<") and not _is_machinery(frame.filename)
    ]
    where = f"{frames[-1].filename}:{frames[-1].lineno}: " if frames else ""
    return TargetImportError(f"{what} cannot be imported: {where}{type(error).__name__}: {error}")


def _is_machinery(path: str) -> bool:
    own = str(Path(__file__).parent)
    return path.startswith(own) or "importlib" in path


def _named(module: ModuleType, name: str, attribute: str) -> App:
    found: object = module
    for part in attribute.split("."):
        found = getattr(found, part, None)
    if found is None:
        have = ", ".join(sorted(n for n, v in vars(module).items() if isinstance(v, App)))
        hint = f"; it has {have}" if have else ""
        raise TargetNotFoundError(f"{name} has no {attribute!r}{hint}")
    if not isinstance(found, App):
        raise TargetKindError(f"{name}:{attribute} is a {type(found).__name__}, not an App")
    return found


def _found(module: ModuleType, name: str) -> App:
    apps = list({id(v): v for v in vars(module).values() if isinstance(v, App)}.values())
    if len(apps) == 1:
        return apps[0]
    if apps:
        names = ", ".join(n for n, v in vars(module).items() if isinstance(v, App))
        raise TargetKindError(f"{name} holds several apps; name one: {name}:<one of {names}>")
    workflows = {id(v): v for v in vars(module).values() if isinstance(v, WorkflowDefinition)}
    if not workflows:
        raise TargetEmptyError(f"{name} defines no workflow")
    return App(name, list(workflows.values()))
