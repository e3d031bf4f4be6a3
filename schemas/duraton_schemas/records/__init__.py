"""The records of the log as Python types; their Avro schemas stand beside them in `avro/`.

- `common`: the parts that records share
- `public`: what users write and read
- `journal`: the facts, which are the truth
- `acts`: those of acts on ended runs and on many runs, and what such acts carry
- `commands`: what the API asks
- `messages`: what one slot tells another
"""
