"""The rules that a journal keeps, held to by `duraton log verify`."""
