"""A machine to write reports about, and a pytest plugin that says a run takes place on it, without TensorFlow.

The plugin leaves the evidence and the page of a finding out, which TensorFlow is needed for.
"""

from __future__ import annotations

from gradcheck.hunt.report.environment import Environment

MACHINE = Environment("2.21.0", "2.0", "3.11", "0.1.0", "0", "2", 1, 1, "a processor", "Linux", "7")

ELSEWHERE = f"""
import sys
from types import SimpleNamespace

from gradcheck.hunt.report import environment
from gradcheck.hunt.report.environment import Environment

environment.current = lambda seed=None: {MACHINE}
report = "gradcheck.hunt.report"
sys.modules[f"{{report}}.evidence"] = SimpleNamespace(completed=lambda found: found, evidence=lambda found: None)
sys.modules[f"{{report}}.finding_page"] = SimpleNamespace(finding_page=lambda *told: "<p>left out</p>")
"""
