"""Modules and functions stay short enough to be read in one sitting."""

import ast

from house import modules

MODULE_LINES_MAX = 600
MODULE_LINES_P90 = 350
FUNCTION_LINES_MAX = 70


def percentile(values, share):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def functions():
    for module in modules():
        for node in ast.walk(module.tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield f"{module.place}:{node.lineno} {node.name}", node.end_lineno - node.lineno + 1


def test_modules_are_short():
    lengths = {module.place: module.lines for module in modules()}
    long = {place: lines for place, lines in lengths.items() if lines > MODULE_LINES_MAX}
    assert not long, f"split these along what they are about: {long}"
    p90 = percentile(lengths.values(), 0.9)
    above = {place: lines for place, lines in lengths.items() if lines > MODULE_LINES_P90}
    assert p90 <= MODULE_LINES_P90, f"a tenth of the modules is above {p90} lines: {above}"


def test_functions_are_short():
    long = {place: lines for place, lines in functions() if lines >= FUNCTION_LINES_MAX}
    assert not long, f"functions have fewer than {FUNCTION_LINES_MAX} lines: {long}"


def test_the_figures_are_shown(record_property, capsys):
    # `make check` prints them, and the reader sees how near the limits are.
    of_modules = [module.lines for module in modules()]
    of_functions = [lines for _, lines in functions()]
    with capsys.disabled():
        for what, values in (("modules", of_modules), ("functions", of_functions)):
            print(
                f"\n{what}: {len(values)}, lines: median {percentile(values, 0.5)}, "
                f"p90 {percentile(values, 0.9)}, max {max(values)}"
            )
