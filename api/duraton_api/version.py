"""This program's version."""

from importlib.metadata import PackageNotFoundError, version

try:
    VERSION = version("duraton")
except PackageNotFoundError:  # run from a source tree that is not installed
    VERSION = "0+source"
