from __future__ import annotations

import site
import sys
import sysconfig
from pathlib import Path

import pytest

from gradcheck.hunt.confirmation import LIMIT, Confirmation, confirm


def test_a_script_that_finds_it_wrong_confirms() -> None:
    done = confirm("import sys\nprint('x 0 9')\nprint('WRONG')\nsys.exit(1)")
    assert (done.returncode, done.output, done.confirmed) == (1, "x 0 9\nWRONG", True)


@pytest.mark.parametrize("script", ["print('RIGHT')", "import sys\nprint('INCONCLUSIVE')\nsys.exit(2)"])
def test_anything_else_does_not(script: str) -> None:
    assert not confirm(script).confirmed


def test_a_script_that_fails_is_no_confirmation_although_python_exits_with_1() -> None:
    done = confirm("import no_such_module_here")
    assert done.returncode == 1
    assert not done.confirmed
    assert "ModuleNotFoundError" in done.output


def test_time_over() -> None:
    done = confirm("import time\ntime.sleep(60)", timeout=0.5)
    assert (done.returncode, done.confirmed) == (None, False)
    assert "0.5 s" in done.output


def test_flags_are_passed_on_and_search_paths_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TF_ENABLE_ONEDNN_OPTS", "1")
    monkeypatch.setenv("PYTHONPATH", "/somewhere")
    told = confirm("import os\nprint(os.environ['TF_ENABLE_ONEDNN_OPTS'], os.environ.get('PYTHONPATH'))").output
    assert told == "1 None"


def test_the_user_s_site_is_seen_where_this_process_sees_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """TensorFlow may be installed there (pip install --user)."""
    folder = Path(sysconfig.get_path("purelib", "posix_user", {"userbase": str(tmp_path)}))
    folder.mkdir(parents=True)
    (folder / "only_of_this_user.py").touch()
    monkeypatch.setenv("PYTHONUSERBASE", str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", "/somewhere")
    # A virtual environment has no user's site, even if it is asked for.
    monkeypatch.setattr(sys, "executable", getattr(sys, "_base_executable", sys.executable))
    script = "import sys, only_of_this_user\nassert '/somewhere' not in sys.path\nprint('WRONG')\nsys.exit(1)"
    for seen in (True, False):
        monkeypatch.setattr(site, "ENABLE_USER_SITE", seen)
        assert confirm(script).confirmed is seen


@pytest.mark.parametrize(
    ("code", "output", "decided"),
    [
        (1, "x 0 9\nWRONG", True),
        (0, "RIGHT", True),
        (2, "INCONCLUSIVE", True),
        (1, "Traceback\nModuleNotFoundError: No module named 'tensorflow'", False),
        (1, "RIGHT", False),
        (-6, "WRONG", False),
        (None, "no answer within 120 s", False),
        (None, "", False),
    ],
)
def test_only_a_script_that_came_to_its_end_says_something(code: int | None, output: str, decided: bool) -> None:
    assert Confirmation(code, output).decided is decided


def test_the_output_is_bounded_and_keeps_its_end() -> None:
    assert confirm("print('a' * 100_000 + 'end')").output == "a" * (LIMIT - 3) + "end"
