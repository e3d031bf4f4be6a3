"""Flow control in the view: who waits before which gate, windows and buffers, what starts led to.

It is folded from the facts alone, in three parts. `lanes` keeps the queues as the engine has
them: runs stand in lanes, lanes in the line of a control's scope. `windows` keeps debounce
windows and batch buffers, open, held or over. `fold` ties the facts to both; `file` loads
and writes them; the rest reads.
"""
