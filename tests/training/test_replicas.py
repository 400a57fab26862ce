"""C5, gradients from two replicas: how the gradients and the loss are reduced, and calls of optimizers among them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from gradcheck.training.common_factor import REPLICAS, UNCHANGED

SCRIPTS = [str(Path(__file__).parent / name) for name in ("replicas.py", "summed_replicas.py")]
ONE_BY_ONE = "import runpy, sys; [runpy.run_path(script) for script in sys.argv[1:]]"


def test_c5_gradients_from_replicas() -> None:
    """Both scripts run in one fresh process: the devices have to be configured before TensorFlow starts."""
    command = [sys.executable, "-c", ONE_BY_ONE, *SCRIPTS]
    run = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert run.returncode == 0, run.stderr[-2000:]
    twice = "all gradients are 2 times the right ones"
    summed = (
        f"{twice}, as many as there are replicas: their 2 gradients are summed, the loss is their mean -> {REPLICAS}"
    )
    assert run.stdout.splitlines() == [
        *["agree", "GradientWrongValue"],
        *["the step calls SGD inside of MirroredStrategy.run"] * 2,
        *[summed] * 3,
        "all gradients are 0.5 times the right ones, one part in 2, as there are replicas: their gradients are "
        f"averaged, the loss is their sum -> {REPLICAS}",
        *["agree"] * 3,
        f"{twice}; the sum of the 2 gradients that its tapes took is right, and was multiplied -> "
        f"{UNCHANGED.format(total='sum')}",
    ]
