"""Each case has a test of its number, or a reason."""

import re
from pathlib import Path

CASES = {
    "A": [2, 3, 4, 5, 7, 8, 9],
    "B": [10, 12, 13, *range(15, 32)],
    "C": [32, *range(34, 41)],
    "D": [41, 42, *range(44, 49)],
    "E": [49, 50, 51, *range(53, 63)],
    "F": [*range(63, 71), *range(72, 77)],
    "G": [78, 79, 80, 81, 82],
    "H": [83, 84, 85, 86, 87, 88, 89],
    "I": [91, 92, 93, 94, 95, 97, 98, 99, 100, 102, 103],
    "J": [104, 105, 106, *range(108, 114), *range(115, 120)],
    "K": [120, 121, 122, *range(124, 129), *range(130, 139)],
    "L": [139, 140, 141, 143, 144, 145, 146, 147, 149, 150, 151, 152],
    "M": [153, 154, 155, 158, 159, 160, 161, 162, 163, 164],
    "N": [165, 166, 167, 169, 171, 172, 173, 174],
    "O": [175, 177, 179, 180, 181, 182, 183],
    "P": [184, 186, 188, 189, 190, 191, 192],
    "Q": [193, 195, 196, 197, 198, 199, 200, 201],
    "R": [203, 204, 205, 206, 207, 208, 209, 210, 211, 212],
    "S": [213, 215, 216, 217, 218, 219, 220],
    "T": [222, 223],
}

ELSEWHERE = {
    206: "clocks of several processes: tests/streams/test_clock.py",
    207: "a wall clock that jumps: tests/streams/test_clock.py; the engine is given the time",
}

IN_TURN = "several engine processes: tests/acceptance/test_engines_in_turn.py"
"""On a real broker. They follow each other, all that live accept events, and one decides;
that several decide at once, each for partitions of its own, comes with clusters. The number
of processes is three; a throttle there is of milliseconds, where case 205 has 12 hours."""

PARTLY_ELSEWHERE = {
    17: "two processes that start together: tests/acceptance/test_engines_at_once.py",
    31: IN_TURN,
    51: "every point within a batch: tests/properties/test_crash_points.py",
    59: IN_TURN,
    83: IN_TURN,
    94: IN_TURN,
    110: IN_TURN,
    115: IN_TURN,
    117: "a call that a model makes: no SDK of ours offers flows to models",
    132: IN_TURN,
    205: IN_TURN,
}
"""What a test here cannot show of its case, and where it is shown."""


def test_each_case_has_its_test():
    text = "".join(path.read_text() for path in Path(__file__).parent.glob("test_*.py"))
    found = {int(number) for number in re.findall(r"def test_case_(\d{3})_", text)}
    wanted = {number for numbers in CASES.values() for number in numbers}
    assert found == wanted - set(ELSEWHERE)


def test_each_reason_is_of_a_case():
    wanted = {number for numbers in CASES.values() for number in numbers}
    assert set(ELSEWHERE) <= wanted
    assert set(PARTLY_ELSEWHERE) <= wanted - set(ELSEWHERE)
