"""The property tests run under HypoFuzz as they are: collected, set up, and run by its worker's own steps.

`hypothesis fuzz` itself gives up if a worker has not run a hundred examples in its first minute, so its steps are
taken here, one example after another.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.reliability.conftest import LATE

ROOT = Path(__file__).resolve().parents[2]
CODE = """
from hypofuzz import detection
detection._in_hypofuzz_run = True
from hypofuzz.collection import collect_tests

options = ["-p", "no:cacheprovider", "--hypothesis-profile=dev", "--gradcheck-ops=exp"]
collected = collect_tests(["tests/properties/test_operations.py", *options])
assert not collected.not_collected, collected.not_collected
for target in collected.fuzz_targets:
    target._enter_fixtures()
    for _ in range(5):
        target.run_one()
    target._exit_fixtures()
    print("fuzzed", target.nodeid, target.provider.ninputs, target.has_found_failure)
"""


def test_every_test_of_an_operation_is_fuzzed() -> None:
    pytest.importorskip("hypofuzz", reason="HypoFuzz is not installed (pip install 'gradcheck[fuzz]')")
    done = subprocess.run([sys.executable, "-c", CODE], cwd=ROOT, capture_output=True, text=True, timeout=LATE)
    assert done.returncode == 0, done.stderr
    told = [line.split() for line in done.stdout.splitlines() if line.startswith("fuzzed")]
    assert [name.rpartition("[")[2] for _, name, _, _ in told] == ["exp-order1]", "exp-order2]"]
    assert all(int(examples) >= 5 for _, _, examples, _ in told)
    assert {failed for *_, failed in told} == {"False"}
