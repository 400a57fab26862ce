"""The profiles: tests always draw the same examples, hunts never do, whatever Hypothesis loads by itself."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from gradcheck.strategies.profiles import REDIS, chosen, database
from hypothesis import settings

CODE = """
import json, sys
from pathlib import Path
from gradcheck.strategies import profiles
from hypothesis import settings

profiles.register(Path(sys.argv[1]))
seen = {}
for name in ("ci", "dev", "nightly"):
    settings.load_profile(name)
    now = settings()
    kept = type(now.database).__name__
    seen[name] = [now.derandomize, kept, now.max_examples, now.deadline]
print(json.dumps(seen))
"""


@pytest.mark.parametrize("ci", ["", "true"])
def test_only_the_tests_profile_is_derandomised_even_where_hypothesis_loads_its_own_for_ci(
    tmp_path: Path, ci: str
) -> None:
    kept = {name: value for name, value in os.environ.items() if name not in ("CI", "GRADCHECK_REDIS")}
    environment = {**kept, **({"CI": ci} if ci else {})}
    done = subprocess.run(
        [sys.executable, "-c", CODE, str(tmp_path)], env=environment, capture_output=True, text=True, check=True
    )
    assert json.loads(done.stdout) == {
        "ci": [True, "NoneType", 5, None],
        "dev": [False, "DirectoryBasedExampleDatabase", 10, None],
        "nightly": [False, "DirectoryBasedExampleDatabase", 1000, None],
    }


def test_this_run_draws_fixed_examples_unless_it_was_asked_to_hunt(pytestconfig: pytest.Config) -> None:
    profile, seed = (pytestconfig.getoption(f"--hypothesis-{name}") for name in ("profile", "seed"))
    assert settings.get_current_profile_name() == chosen(profile, seed)
    if profile is None and seed is None:
        assert settings().derandomize
        assert settings().database is None


def test_the_readme_s_hunt_draws_new_examples_and_its_tests_do_not() -> None:
    readme = (Path(__file__).parents[3] / "README.md").read_text()
    commands = {
        name: readme.partition(f"<!-- {name} command -->")[2].partition("```sh\n")[2].partition("```")[0]
        for name in ("hunt", "test")
    }
    assert "pytest tests/properties --hypothesis-profile=dev " in commands["hunt"]
    assert "--hypothesis" not in commands["test"]
    assert "python -m pytest" in commands["test"]


RARE = range(123_456_789, 10**9, 7_654_321)


@pytest.mark.parametrize("loaded", [False, True])
def test_what_is_drawn_does_not_depend_on_the_modules_that_are_loaded(tmp_path: Path, loaded: bool) -> None:
    """Hypothesis draws constants of local modules, unless it is prevented."""
    (tmp_path / "many_constants.py").write_text(f"NUMBERS = {list(RARE)}\n")
    script = f"""
import sys
from pathlib import Path
from gradcheck.strategies import profiles
from hypothesis import given, settings, strategies as st

profiles.register(Path({str(tmp_path)!r}))
settings.load_profile("ci")
sys.path.insert(0, {str(tmp_path)!r})
{"import many_constants" if loaded else ""}
drawn = []


@settings(max_examples=400)
@given(st.integers(0, 10**9))
def test(number):
    drawn.append(number)


test()
print(len({{*drawn}} & {{*{RARE!r}}}))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert int(done.stdout) == 0


@pytest.mark.parametrize(
    "url", ["redis://:opensesame@127.0.0.1:1/0", "redis://:sesame/open@127.0.0.1", "opensesame@x?y=opensesame"]
)
def test_no_password_is_printed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    monkeypatch.setenv(REDIS, url)
    with pytest.raises(ValueError, match=REDIS) as caught:
        database(tmp_path)
    assert not any(part in str(caught.value) for part in ("open", "sesame"))
