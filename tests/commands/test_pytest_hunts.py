"""The plugin in a hunt: operations, shards, budgets, events, JUnit's fields, progress."""

from __future__ import annotations

import math
import os
import re
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from xml.etree import ElementTree

import pytest

from gradcheck.hunt.report.run import read
from gradcheck.hunt.running.aggregate import load
from gradcheck.operations.catalogue import CATALOGUE
from gradcheck.pytest_plugin import configuration
from tests import slices
from tests.commands.test_pytest_plugin import FINDING, elsewhere, run, run_here

pytest_plugins = ["pytester"]


MANY = """
    import os
    import time
    from dataclasses import replace
    import pytest
    from gradcheck.pytest_plugin import CONFIGURATION

    @pytest.mark.parametrize("name", [
        pytest.param(name, marks=pytest.mark.gradcheck_operation(name)) for name in ("exp", "sin", "sinh", "tan")
    ])
    def test_hunt(gradcheck_coverage, gradcheck_operations, name, pytestconfig):
        print("ran", name, gradcheck_operations)
        gradcheck_coverage.count(name, 1)
        configuration = pytestconfig.stash[CONFIGURATION]
        if name == "sin" and configuration.minutes == 5:  # the time is over from now on
            pytestconfig.stash[CONFIGURATION] = replace(configuration, deadline=0.0)
        time.sleep(float(os.environ.get("TAKES", "0")))

    def test_other():
        print("ran other")
"""


def ran(result: pytest.RunResult) -> list[str]:
    """The tests that ran, in order."""
    return re.findall(r"\bran (\w+)", result.stdout.str())


def test_operations_are_chosen_by_name_and_glob_and_other_tests_are_left_alone(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(MANY)
    result = run_here(pytester, "-s", "--gradcheck-ops=sin*,tan")
    result.assert_outcomes(passed=4, deselected=1)
    assert ran(result) == ["sin", "sinh", "tan", "other"]
    (told,) = set(re.findall(r"ran sin (\(.*\))", result.stdout.str()))
    assert {"sin", "sinh", "tan"} <= set(re.findall(r"\w+", told)) < set(CATALOGUE)
    result = run_here(pytester, "--gradcheck-ops=sinn")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*'sinn' matches none of the catalogue; did you mean 'sin'*"])


OWN = """
    import gradcheck

    @gradcheck.operation
    def cubed(x):
        return x**3

    def test_of_the_project():
        pass
"""


@slices.parametrized("workers", [(), ("-n", "2")], slices.every(2))
def test_an_unknown_operation_of_a_project_is_refused_by_name(
    pytester: pytest.Pytester, workers: tuple[str, ...]
) -> None:
    pytester.makepyfile(OWN)
    result = run(pytester, "--gradcheck-ops=cubd", *workers)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    told = "*'cubd' matches none of the catalogue; did you mean 'cubed'*"
    (result.stderr if not workers else result.stdout).fnmatch_lines([told])
    assert "passed" not in result.stdout.str()


@pytest.mark.parametrize("workers", [(), ("-n", "1")])
def test_names_of_the_catalogue_with_which_no_test_hunts_are_refused(
    pytester: pytest.Pytester, workers: tuple[str, ...]
) -> None:
    """Such as a glob for an operation of the project, whose module no test imports, which matches one of
    TensorFlow's."""
    pytester.makepyfile("def test_of_the_project(): pass")
    result = run_here(pytester, "--gradcheck-ops=*softmax", *workers)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    told = "*operations were '?softmax'; *no test * hunts with them*@gradcheck.operation*"
    (result.stderr if not workers else result.stdout).fnmatch_lines([told])
    assert "passed" not in result.stdout.str()


def test_a_module_that_cannot_be_collected_is_told_before_names_are_refused(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("import no_such_module_here")
    result = run_here(pytester, "--gradcheck-ops=*softmax")
    assert result.ret == pytest.ExitCode.INTERRUPTED
    assert "no_such_module_here" in result.stdout.str()


def test_a_module_that_the_controller_cannot_import_does_not_end_the_run_and_its_tests_have_hypothesis_as_it_is(
    pytester: pytest.Pytester,
) -> None:
    asserted = """
    from hypothesis.internal.conjecture import providers

    def test_of_the_project():
        assert getattr(providers, "_get_local_constants", one).__module__ in (providers.__name__, __name__)

    def one():
        pass
    """
    path = pytester.path / "v1.0" / "test_own.py"
    path.parent.mkdir()
    path.write_text(textwrap.dedent(OWN.split("    def test_of")[0] + asserted))
    options = ("--import-mode=importlib", "--gradcheck-ops=cubed", "-k", "of_the_project", "-n", "1", "v1.0")
    result = run_here(pytester, *options)
    result.assert_outcomes(passed=1)
    (told,) = (line for line in result.outlines if line.startswith("note: the module "))
    assert "cannot be imported" in told
    assert "ModuleNotFoundError" in told


PROFILES = """
    import pytest
    from hypothesis import errors, given, settings, strategies as st
    from hypothesis.internal.conjecture import providers

    DRAWS = providers._get_local_constants

    def test_of_the_project():
        assert settings.get_profile("nightly").max_examples == 7
        assert providers._get_local_constants is DRAWS

    def test_hunting():
        assert settings.get_current_profile_name() == "dev"
        assert settings.get_profile("dev").max_examples == 10

    def test_not_hunting():
        with pytest.raises(errors.InvalidArgument):
            settings.get_profile("dev")
"""


def test_a_project_that_hunts_has_the_profiles_beside_its_own_and_another_has_none(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(KEEPING.replace('"mine", ', '"nightly", max_examples=7, ').replace('"mine"', '"nightly"'))
    pytester.makepyfile(test_own=OWN.split("    def test_of")[0], test_profiles=PROFILES)
    chosen = ("-k", "registration or of_the_project or test_hunting")
    result = run(pytester, "--gradcheck-ops=cubed", "--hypothesis-profile=dev", *chosen)
    result.assert_outcomes(passed=3, deselected=result.parseoutcomes()["deselected"])
    result = run(pytester, "-k", "of_the_project or not_hunting", "test_profiles.py")
    result.assert_outcomes(passed=2, deselected=1)


REFUSED = """
    import gradcheck
    import tensorflow as tf

    @gradcheck.operation(modes=["tf.function"])
    def own_round(x):
        return tf.round(x)
"""


def test_with_a_budget_an_operation_is_accepted_in_its_turn_and_refused_once(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(REFUSED)
    result = run(pytester, "--gradcheck-ops=own_round", "--gradcheck-minutes=0.5")
    assert "test_registration" not in result.stdout.str()
    assert "its gradient is None" in result.stdout.str()
    outcomes = result.parseoutcomes()
    assert outcomes.pop("errors") == 1
    assert set(outcomes) == {"skipped"}
    result = run(pytester, "--gradcheck-ops=own_round", "--gradcheck-minutes=0.01")
    assert result.ret == pytest.ExitCode.OK, "the time is over before operations are collected"


def test_two_runs_that_begin_at_once_in_processes_of_one_number_have_names_of_their_own(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As for containers that share a folder of reports."""
    monkeypatch.setattr("gradcheck.pytest_plugin.time.strftime", lambda *_: "20260101-000000")
    config = pytester.parseconfig("-p", "gradcheck.pytest_plugin")
    names = {configuration(config).name for _ in range(5)}
    assert len(names) > 1
    assert {name.count("-") for name in names} == {2}, "what follows the last hyphen of a file's name is the worker"
    assert all(name.startswith(f"20260101-000000-{os.getpid()}") for name in names)


def test_a_folder_that_is_no_utf_8_stops_nothing(pytester: pytest.Pytester) -> None:
    folder = os.fsencode(pytester.path) + b"/v\xff"
    try:
        os.mkdir(folder)
    except OSError:
        pytest.skip("this file system takes UTF-8 only")
    with open(folder + b"/test_mine.py", "w", encoding="utf-8") as file:
        file.write("def test_mine(): pass")
    run(pytester, "-q").assert_outcomes(passed=1)


def test_the_shards_together_are_everything_and_merge_into_what_one_run_tells(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(MANY)
    parts = [ran(run_here(pytester, "-s", f"--gradcheck-shard={n}/2", f"--gradcheck-reports=shard{n}")) for n in (1, 2)]
    whole = ran(run_here(pytester, "-s", "--gradcheck-reports=whole"))
    assert sorted(parts[0] + parts[1]) == sorted(whole)
    assert len(whole) == 5
    folders = [pytester.path / name / "events" for name in ("shard1", "shard2", "whole")]
    merged = read(*[folder for folder in folders[:2] if folder.is_dir()])
    assert merged.coverage.to_json() == read(folders[2]).coverage.to_json()
    result = run_here(pytester, "--gradcheck-shard=3/2")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*shard was '3/2'; expected K/N with K from 1 to N*"])


@slices.parametrized("workers", [(), ("-n", "1", "--maxschedchunk", "1")], slices.every(2))
def test_what_a_budget_did_not_reach_comes_first_the_next_time(
    pytester: pytest.Pytester, workers: tuple[str, ...]
) -> None:
    pytester.makepyfile(MANY)
    result = run_here(pytester, "-v", "--gradcheck-minutes=5", *workers)
    # One test says that the time is over, in each process; the others wait without a word.
    assert result.parseoutcomes()["skipped"] == 1
    result.stdout.fnmatch_lines(["*minutes are over: all that was found is in reports. To go on: python -m pytest *"])
    schedule = load(pytester.path / "reports" / "schedule.json")
    assert [name.partition("[")[2] for name in sorted(schedule)] == ["exp]", "sin]"]
    result = run_here(pytester, "-s", "--gradcheck-minutes=100")
    assert ran(result) == ["sinh", "tan", "other", "exp", "sin"]
    assert {*load(pytester.path / "reports" / "schedule.json").values()} == {2}


def test_a_budget_begins_with_its_run_and_not_with_the_process(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = time.time
    monkeypatch.setattr(time, "time", lambda: now() + 3600.0)
    pytester.makepyfile(MANY)
    run_here(pytester, "--gradcheck-minutes=4").assert_outcomes(passed=5)


KEEPING = """
    from hypothesis import settings
    from hypothesis.database import InMemoryExampleDatabase

    settings.register_profile("mine", database=InMemoryExampleDatabase())
    settings.load_profile("mine")
"""


@slices.parametrized(
    ("conftest", "kept"),
    [(KEEPING, True), ("", False), (KEEPING.replace("InMemoryExampleDatabase())", "None)"), False)],
    slices.every(2),
)
def test_only_examples_that_are_kept_are_said_to_be_tried_first(
    pytester: pytest.Pytester, conftest: str, kept: bool
) -> None:
    pytester.makeconftest(conftest)
    pytester.makepyfile(MANY)
    result = run_here(pytester, "--gradcheck-minutes=5")
    (told,) = (line for line in result.outlines if "minutes are over: all that was found" in line)
    assert told.endswith("(examples that failed are tried first)") is kept


@pytest.mark.parametrize("option", ["minutes=0", "minutes=nan", "limit=-1", "minutes=inf", "shrinking=0"])
def test_a_number_that_makes_no_sense_is_refused(pytester: pytest.Pytester, option: str) -> None:
    config = pytester.parseconfig("-p", "gradcheck.pytest_plugin", f"--gradcheck-{option}")
    with pytest.raises(ValueError, match=f"--gradcheck-{option.partition('=')[0]} was .*; expected a number above 0"):
        configuration(config)


def test_a_refusal_is_a_usage_error(pytester: pytest.Pytester) -> None:
    result = run_here(pytester, "--gradcheck-minutes=0")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*--gradcheck-minutes was 0.0; expected a number above 0*"])


def test_the_options_make_the_configuration_of_the_run(pytester: pytest.Pytester) -> None:
    options = ("--gradcheck-shard=2/3", "--gradcheck-shrinking=5", "--gradcheck-limit=7", "--gradcheck-reports=there")
    made = configuration(pytester.parseconfig("-p", "gradcheck.pytest_plugin", *options))
    assert (str(made.shard), made.shrink_seconds, made.limit) == ("2/3", 5.0, 7.0)
    assert made.events == pytester.path / "there" / "events"
    assert (made.operations, made.minutes, made.deadline, made.schedule) == (None, None, math.inf, {})


def test_junit_gets_the_fields_of_a_finding(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(FINDING)
    run_here(pytester, "--junitxml=junit.xml", "-n", "1")
    case = ElementTree.parse(pytester.path / "junit.xml").find(".//testcase")
    assert case is not None
    told = {one.get("name"): one.get("value") for one in case.iter("property")}
    assert told["gradcheck.operation"] == "sin"
    assert told["gradcheck.kind"] == "wrong value"
    assert told["gradcheck.autodiff"] == "2.0"
    assert told["gradcheck.confirmed"] == "true"


def test_the_events_of_a_run_are_a_run(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(FINDING)
    run_here(pytester, "--gradcheck-ops=sin", "--gradcheck-shard=1/1")
    told = read(pytester.path / "reports" / "events")
    (started,), (finished,), (finding,) = told.started, told.finished, told.findings
    assert (started.operations, started.shard) == (("sin",), "1/1")
    assert (finished.how.value, finished.examples) == ("completed", 1)
    assert finding.culprit == "sin"
    assert told.coverage.at("sin", 1, "mismatch") == 1


@pytest.mark.skipif(os.name != "posix", reason="pseudo-terminals are of POSIX")
@pytest.mark.parametrize(("ci", "shown"), [(None, True), ("1", False)])
def test_a_terminal_shows_progress_and_ci_does_not(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, ci: str | None, shown: bool
) -> None:
    monkeypatch.delenv("CI", raising=False)
    if ci:
        monkeypatch.setenv("CI", ci)
    pytester.makepyfile(MANY)
    monkeypatch.setenv("TAKES", "0.3")  # the line is shown at most every 0.2 s
    output = in_terminal([sys.executable, "-m", "pytest", *elsewhere(pytester)], pytester.path)
    assert "5 passed" in output
    assert bool(re.search(r"gradcheck: 2 of 5 tests, 2 examples, \d+ a second, about \d+ s left", output)) == shown
    assert ("gradcheck: " in output) == shown


def in_terminal(command: list[str], folder: Path) -> str:
    """The output of a command on a terminal."""
    import pty

    controller, terminal = pty.openpty()
    with subprocess.Popen(command, cwd=folder, stdout=terminal, stderr=terminal, stdin=terminal) as process:
        os.close(terminal)
        read = b""
        while True:
            try:
                part = os.read(controller, 1000)
            except OSError:  # the other end is closed
                break
            read += part
            if not part:
                break
        process.wait()
    os.close(controller)
    return read.decode(errors="replace")
