"""How many single wrong entries are caught and located in large Jacobians: a table, and what a check costs.

    python tests/benchmarks/detection.py [--repetitions 100]

f is the identity with one entry of its Jacobian off by 1, at a place drawn anew every time.
"""

from __future__ import annotations

import argparse
import os
import time
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
import tensorflow as tf

from gradcheck import check

SIZES = (100, 300, 1000)
ERROR = 1.0


def nearly_identity(size: int, output: int, coordinate: int) -> Any:
    """y = x, with a backward pass whose Jacobian is off by ERROR at one entry."""
    unit = np.eye(1, size, coordinate)[0]

    @tf.custom_gradient
    def f(x: tf.Tensor) -> Any:
        return tf.identity(x), lambda upstream: upstream + ERROR * unit * upstream[output]

    return f


def detection(size: int, repetitions: int) -> tuple[int, int, float]:
    """How many were caught, how many located, and the mean seconds of processor time of a check."""
    rng = np.random.default_rng(size)
    caught = located = 0
    start = time.process_time()
    for _ in range(repetitions):
        x = rng.uniform(0.5, 2.0, size) * rng.choice([-1.0, 1.0], size)
        output, coordinate = (int(place) for place in rng.integers(size, size=2))
        findings = check(nearly_identity(size, output, coordinate), x).findings
        caught += bool(findings)
        located += [(finding.output, finding.index) for finding in findings] == [(output, (coordinate,))]
    return caught, located, (time.process_time() - start) / repetitions


def main() -> None:
    """Prints one line a size."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repetitions", type=int, default=100, help="checks of each size (100)")
    repetitions = parser.parse_args().repetitions
    print(f"{'Jacobian':>12} {'caught':>12} {'located':>12} {'s a check':>10}")
    for size in SIZES:
        caught, located, seconds = detection(size, repetitions)
        print(
            f"{f'{size} x {size}':>12} {f'{caught} of {repetitions}':>12} {f'{located} of {repetitions}':>12} "
            f"{seconds:>10.2f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
