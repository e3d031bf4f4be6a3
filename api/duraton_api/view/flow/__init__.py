"""Flow control in the view: who waits before which gate, windows and buffers, what starts led to.

It is folded from the facts alone, in three parts. `lanes` keeps the queues as the engine has
them: runs stand in lanes, lanes in the line of a control's scope. `windows` keeps debounce
windows and batch buffers, open, held or over, and what starts led to. `holds` keeps the
workflows that their budget holds, and spend by the hour. `fold` ties the facts to them;
`file` loads and writes; the rest reads.
"""
