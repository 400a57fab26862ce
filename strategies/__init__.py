"""Hypothesis strategies: shapes, values, attributes and graphs."""

from .graphs import graphs

__all__ = ["graphs"]
