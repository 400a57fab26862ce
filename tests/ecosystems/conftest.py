"""Collects nothing where one of the libraries is missing: .ci/ecosystems installs them, each week."""

from __future__ import annotations

from importlib.util import find_spec

# A project of its own: .ci/ecosystems hunts in its tables.
collect_ignore = ["hunted"]
if not (find_spec("tensorflow_probability") and find_spec("gpflow")):
    collect_ignore += ["test_derivatives.py", "test_kept_results.py"]
