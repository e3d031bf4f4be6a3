"""The view: a SQLite file that folds the journal for lists, details and people's SQL."""

from duraton_api.view.view import View

__all__ = ["View"]
