"""Acts on ended runs, and on many runs: what the engine has forgotten is read from the view."""

from duraton_api.acts.acts import Access, Acts

__all__ = ["Access", "Acts"]
