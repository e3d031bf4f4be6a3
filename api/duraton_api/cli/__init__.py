"""The command line `duraton`.

Data goes to stdout and the rest to stderr. The exit status is 0, 1 where something
was refused or failed, 2 for wrong usage.
"""
