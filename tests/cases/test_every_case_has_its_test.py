"""Each case of the sections that this version covers has a test of its number, or a reason."""

import re
from pathlib import Path

CASES = {
    "I": [98, 99, 100, 102, 103],
    "L": [139, 140, 141, 143, 144, 145, 146, 147, 149, 150, 151, 152],
    "M": [153, 154, 155, 158, 159, 160, 161, 162, 163, 164],
    "N": [165, 166, 167, 169, 171, 172, 173, 174],
    "O": [175, 177, 179, 180, 181, 182, 183],
    "P": [184, 186, 188, 189, 190, 191, 192],
    "Q": [193, 195, 196, 197, 198, 199, 200, 201],
    "R": [203, 204, 205, 206, 207, 208, 209, 210, 211, 212],
    "S": [213, 215, 216, 217, 218, 219, 220],
}

ELSEWHERE = {
    191: "a singleton's key that is in use; singleton comes later",
    205: "a start that throttle delays; throttle comes later",
    206: "clocks of several processes: tests/streams/test_clock.py",
    207: "a wall clock that jumps: tests/streams/test_clock.py; the engine is given the time",
}


def test_each_case_has_its_test():
    text = "".join(path.read_text() for path in Path(__file__).parent.glob("test_*.py"))
    found = {int(number) for number in re.findall(r"def test_case_(\d{3})_", text)}
    wanted = {number for numbers in CASES.values() for number in numbers}
    assert found == wanted - set(ELSEWHERE)
