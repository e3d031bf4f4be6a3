"""Makes a flow program that fails smaller, and shows what is left.

    python tests/properties/flow_shrink.py SEED [how] [profile]

`how` is one of `flow_ways.WAYS`. It leaves out actions, events, operations, controls and
workflows as long as the program still fails with the same kind of complaint.
"""

import re
import sys
from dataclasses import replace

from flow_programs import Program
from flow_ways import WAYS, attempt


def shrink(program, fails):
    """The smallest program found for which `fails` holds."""
    changed = True
    while changed:
        changed = False
        for smaller in candidates(program):
            if fails(smaller):
                program, changed = smaller, True
                break
    return program


def candidates(program: Program):
    """Programs that are a little smaller, the much smaller ones first."""
    actions = program.actions
    size = len(actions)
    step = size // 2
    while step:
        for first in range(0, size, step):
            yield replace(program, actions=(*actions[:first], *actions[first + step :]))
        step //= 2
    for place, flow in enumerate(program.flows):
        if not named(flow, program, place):
            flows = (*program.flows[:place], *program.flows[place + 1 :])
            yield replace(program, flows=flows)
    for place, (gap, action) in enumerate(actions):
        for other in smaller_actions(action):
            yield changed_at(program, place, (gap, other))
        if gap > 1:
            yield changed_at(program, place, (gap // 2, action))
    for place, flow in enumerate(program.flows):
        for other in smaller_flows(flow):
            yield replace(program, flows=replaced(program.flows, place, other))
    if program.ceiling:
        yield replace(program, ceiling=0)
    if program.starts_max != 64:
        yield replace(program, starts_max=64)


def named(flow, program, place):
    """Whether anything speaks of a workflow."""
    text = repr(program.actions)
    alone = sum(other.app == flow.app for other in program.flows) == 1
    return f"'{flow.name}'" in text or alone


def replaced(items, place, item):
    return (*items[:place], item, *items[place + 1 :])


def changed_at(program, place, action):
    return replace(program, actions=replaced(program.actions, place, action))


def smaller_flows(flow):
    for name in flow.controls:
        rest = {key: value for key, value in flow.controls.items() if key != name}
        yield replace(flow, controls=rest)
    if flow.handles:
        yield replace(flow, handles=False)
    if flow.attempts > 1:
        yield replace(flow, attempts=1)
    if len(flow.triggers) > 1:
        yield replace(flow, triggers=flow.triggers[:1])


def smaller_actions(action):
    if action[0] == "post":
        _, events, key = action
        step = len(events) // 2
        while step > 1:
            for first in range(0, len(events), step):
                yield ("post", (*events[:first], *events[first + step :]), key)
            step //= 2
        for place, (name, data, subject) in enumerate(events):
            if len(events) > 1:
                yield ("post", (*events[:place], *events[place + 1 :]), key)
            for other in smaller_data(data):
                yield ("post", replaced(events, place, (name, other, subject)), key)
            if subject is not None:
                yield ("post", replaced(events, place, (name, data, None)), key)
        if key != "ann":
            yield ("post", events, "ann")
    elif action[0] == "deploy":
        for place, flow in enumerate(action[2]):
            for other in smaller_flows(flow):
                yield ("deploy", action[1], replaced(action[2], place, other))


def smaller_data(data):
    ops = data.get("do", [])
    for place, op in enumerate(ops):
        rest = [*ops[:place], *ops[place + 1 :]]
        if rest:
            yield {**data, "do": rest}
        if op[0] == "work" and op[2]:
            yield {**data, "do": [*ops[:place], ["work", op[1], 0], *ops[place + 1 :]]}
        if op[0] == "call":
            for child in smaller_data(op[2]):
                yield {**data, "do": [*ops[:place], ["call", op[1], child], *ops[place + 1 :]]}
    for name in ("a", "b", "deep"):
        if name in data:
            yield {key: value for key, value in data.items() if key != name}


def kind_of(error):
    """What a failure is about, without numbers and names."""
    lines = str(error).splitlines()
    text = lines[0] if lines else ""
    text = re.sub(r"\{.*\}|\[.*\]|\(.*\)", "", text)
    return type(error).__name__, re.sub(r"[\dw:]+|by \S+|of \S+|!failure", "", text)[:60]


def show(program):
    """The program, to be read and to be kept as a test."""
    print(f"Program(seed={program.seed}, profile={program.profile!r}, ceiling={program.ceiling},")
    print(f"    starts_max={program.starts_max}, capacity={program.capacity}, flows=(")
    for flow in program.flows:
        print(f"        {flow},")
    print("    ), actions=(")
    for action in program.actions:
        print(f"        {action},")
    print("    ))")


def main(arguments):
    seed = int(arguments[0])
    way = arguments[1] if len(arguments) > 1 else "exact"
    profile = arguments[2] if len(arguments) > 2 else None
    program = WAYS[way].make(seed, profile)
    first = attempt(way, program)
    if first is None:
        print("it does not fail")
        return
    wanted = kind_of(first)
    print(wanted)

    def fails(smaller):
        error = attempt(way, smaller)
        return error is not None and kind_of(error) == wanted

    small = shrink(program, fails)
    show(small)
    print(attempt(way, small))


if __name__ == "__main__":
    main(sys.argv[1:])
