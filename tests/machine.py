"""A machine to write reports about, and a pytest plugin that says a run takes place on it, without TensorFlow."""

from __future__ import annotations

from gradcheck.hunt.report.environment import Environment

MACHINE = Environment("2.21.0", "2.0", "3.11", "0.1.0", "0", "2", 1, 1, "a processor", "Linux", "7")

ELSEWHERE = f"""
from gradcheck.hunt.report import environment
from gradcheck.hunt.report.environment import Environment

environment.current = lambda seed=None: {MACHINE}
"""
