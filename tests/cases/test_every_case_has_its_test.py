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

PARTLY_ELSEWHERE = {
    17: "two processes that start together: fencing, tests/streams/test_log_contract.py",
    31: "four engine processes: the tests on a real broker",
    51: "every point within a batch: tests/properties/test_crash_points.py",
    59: "four engine processes: as 31",
    83: "four engine processes: as 31",
    94: "four engine processes: as 31",
    110: "four engine processes: as 31",
    115: "four engine processes: as 31",
    117: "a call that a model makes: no SDK of ours offers flows to models",
    132: "three engine processes: as 31",
    205: "three engine processes: as 31",
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
