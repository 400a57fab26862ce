"""The page of a run, written when it ends, so that a plain hunt has one without a merge."""

from __future__ import annotations

from pathlib import Path

from gradcheck import known
from gradcheck.hunting.asked import Asked
from gradcheck.report.run import read
from gradcheck.report.writer import write_run


def write_overview(asked: Asked) -> Path:
    """Writes index.html and summary.md of what a run's processes told, and returns the former's path.

    Raises OSError where the folder cannot be written to, ValueError where an event of the run cannot be read.
    """
    run = read(asked.events, pattern=asked.pattern)
    releases = {started.environment.tensorflow for started in run.started}
    return write_run(run, asked.folder, known.left_out(*releases))[0]
