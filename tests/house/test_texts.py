"""What must not stand in any file of the repository."""

import re
from collections import Counter
from pathlib import Path

from house import ROOT, tracked, tracked_text

UNFINISHED = re.compile(r"\b(TODO|FIXME|XXX)\b")
MACHINE = re.compile(r"(?<![\w.])/(work/|root/|home/[a-z]|Users/[a-zA-Z]|tmp/v/)")
HOSTS = re.compile(r"--(extra-)?index-url|https?://\S+/simple\b|find-links", re.IGNORECASE)


def places(pattern):
    return [
        f"{path.relative_to(ROOT)}:{number} {line.strip()[:80]}"
        for path, text in tracked_text()
        if path != Path(__file__)
        for number, line in enumerate(text.splitlines(), 1)
        if pattern.search(line)
    ]


def test_nothing_is_left_unfinished():
    assert not places(UNFINISHED), "do it, or open an issue"


def test_no_path_of_somebodys_machine():
    assert not places(MACHINE), "use a path relative to the repository, or tmp_path"


def test_no_host_of_a_package_index():
    assert not places(HOSTS), "installers have their own settings; the repository names none"


SILENCED = re.compile(r"#\s*(noqa|type:\s*ignore|pragma:|pyright:|mypy:)(.*)$")
WITH_CODE = re.compile(r"^(:\s*[A-Z]+[0-9]+(,\s*[A-Z]+[0-9]+)*|\[[a-z-]+(,\s*[a-z-]+)*\])(.*)$")


def test_each_silenced_check_has_its_code_and_its_reason():
    wrong = []
    for path, text in tracked_text():
        if path.suffix != ".py" or path.name == Path(__file__).name:
            continue
        for number, line in enumerate(text.splitlines(), 1):
            found = SILENCED.search(line)
            if not found or "`" in line[: found.start()]:
                continue
            parts = WITH_CODE.match(found[2])
            reason = parts[4].strip(" -#") if parts else ""
            if len(reason) < 5:
                wrong.append(f"{path.relative_to(ROOT)}:{number} {line.strip()}")
    assert not wrong, f"write `# noqa: CODE - why`: {wrong}"


def test_names_of_test_files_are_unique():
    # pytest imports them by their base name.
    names = Counter(p.name for p in tracked() if p.name.startswith("test_") and p.suffix == ".py")
    assert not [name for name, count in names.items() if count > 1]


def test_every_component_is_typed():
    for marker in ("schemas/duraton_schemas", "streams/duraton_streams", "engine/duraton_engine"):
        assert (ROOT / marker / "py.typed").exists()
    assert (ROOT / "api/duraton_api/py.typed").exists()
    assert (ROOT / "sdk/duraton/py.typed").exists()
