"""Hypothesis strategies: shapes, values, attributes, and `graphs.graphs`, which puts them together."""
