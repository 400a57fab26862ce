"""A machine for reports, and a pytest plugin for runs on it: without TensorFlow, and without known defects."""

from __future__ import annotations

from gradcheck.hunt.environment import Environment

MACHINE = Environment("2.21.0", "2.0", "3.11", "0.1.0", "0", "2", 1, 1, "a processor", "Linux", "7")

ELSEWHERE = f"""
from pathlib import Path
from gradcheck.defects import known
from gradcheck.hunt import environment
from gradcheck.hunt.environment import Environment

environment.current = lambda seed=None: {MACHINE}
# To read hundreds of records, and hold them against the catalogue, takes a run longer than all else.
nothing = Path(__file__).with_name("nothing")
nothing.mkdir(exist_ok=True)
known.installed = lambda: nothing
"""
