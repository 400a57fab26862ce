"""The page of a run, written when it ends, so that a plain hunt has one without a merge."""

from __future__ import annotations

from pathlib import Path

from gradcheck import known
from gradcheck.report.run import Run
from gradcheck.report.writer import write_run


def write_overview(run: Run, folder: Path) -> Path:
    """Writes index.html and summary.md of what a run's processes told into a folder, and returns the former's path.

    Raises OSError where the folder cannot be written to.
    """
    releases = {started.environment.tensorflow for started in run.started}
    return write_run(run, folder, known.left_out(*releases))[0]
