"""Collects nothing where TensorFlow Probability is missing: .ci/probability installs it, each week."""

from __future__ import annotations

from importlib.util import find_spec

collect_ignore = [] if find_spec("tensorflow_probability") else ["test_derivatives.py"]
