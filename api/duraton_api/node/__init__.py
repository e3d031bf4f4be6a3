"""A node: the composition of log, partitions, runners, view and API in one process.

- `settings`: what a node is told
- `core`: its parts, without server or clock; the testing kit uses it as well
- `node`: the process: `Node` and `run`
"""
