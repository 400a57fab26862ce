"""The script of every known defect shows the error, in a process of its own without gradcheck."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import tensorflow as tf

from gradcheck.defects.records import Defect
from gradcheck.hunt.known_graphs import load
from gradcheck.hunt.report.issue_text import script_of
from tests import slices
from tests.records import covering

FOLDER = Path(__file__).parents[2] / "reports" / "known"
CURRENT = [defect for defect in load(FOLDER) if defect.covers(tf.__version__)]
SHARES = [CURRENT[share::8] for share in range(8)]
RUNNER = """
import contextlib, io, json, sys
for name, text in json.load(sys.stdin).items():
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        try:
            exec(compile(text, name, "exec"), {"__name__": "__main__"})
        except SystemExit:
            pass
    print(json.dumps([name, out.getvalue().splitlines()[-1]]))
"""


def told(defects: list[Defect]) -> dict[str, str]:
    """The last line that each script prints; they run in one process, one after the other, as TensorFlow loads
    slowly."""
    scripts = json.dumps({defect.name: script_of(defect) for defect in defects})
    command = [sys.executable, "-I", "-c", RUNNER]
    done = subprocess.run(command, input=scripts, capture_output=True, text=True, check=True)
    return dict(json.loads(line) for line in done.stdout.splitlines())


def traits(defect: Defect) -> set[object]:
    """The properties on which a script depends beside the graph."""
    about = defect.signature
    return {about.mode, about.path, (about.kind, about.order), about.taken.number_type, defect.severity}


@slices.parametrized("defects", SHARES, lambda _: [covering(traits)(CURRENT)])
def test_no_script_of_a_current_defect_finds_it_right(defects: list[Defect]) -> None:
    assert {name: line for name, line in told(defects).items() if line != "WRONG"} == {}
