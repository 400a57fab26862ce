from __future__ import annotations

import json
import re
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from gradcheck.defects import known
from gradcheck.hunt import confirmation, environment
from gradcheck.hunt.confirmation import Confirmation
from gradcheck.hunt.report import writer
from gradcheck.hunt.report.run import read
from gradcheck.hunt.running import worker
from gradcheck.hunt.running.controller import hunts
from gradcheck.pytest_plugin import project_defaults
from tests import slices
from tests.machine import ELSEWHERE

pytest_plugins = ["pytester"]

THIRD_PARTY = Path(__file__).parents[1] / "thirdparty"
OF_THE_RUN = ("index.html", "summary.md")
PLUGIN = ("-p", "gradcheck.pytest_plugin", "-p", "no:cacheprovider")
SIN = re.compile(r'<code>sin</code></th>\s*<td class="number group">\s*<i class="cell (\w+)"')
"""The colour of sine at order 1 on the page of a run."""
COUNTING = """
    from gradcheck.autodiff.mode import Mode

    def test_sin(gradcheck_coverage):
        gradcheck_coverage.count("sin", 1, mode=Mode("forward"))

    def test_cos(gradcheck_coverage):
        gradcheck_coverage.count("cos", 2, verdict="inconclusive")
"""
FINDING = """
    import types
    import pytest
    from gradcheck.result import Finding, Kind
    from gradcheck.graph import Graph, Input, Node, literal
    from gradcheck.hunt import confirmation
    from gradcheck.hunt.confirmation import Confirmation
    from gradcheck.hunt.finding import GraphFinding

    confirmation.confirm = lambda script: Confirmation(1, "WRONG")

    class Wrong(AssertionError):
        pass

    def finding(culprit):
        graph = Graph((Input((1,), (0.0,)),), (Node.of(culprit, 0),))
        wrong = Finding(Kind.WRONG_VALUE, 1, "x", (0,), None, 2.0, 1.0, 1e-12, 1e-11, "2 instead of 1")
        return GraphFinding(graph, 1, (wrong,), culprit, 1, "zero in argument 0", literal([1.0]))

    def failure(culprit):
        error = Wrong("wrong gradient")
        error.finding = finding(culprit)
        return error

    def test_one(gradcheck_coverage):
        gradcheck_coverage.count("sin", 1, verdict="mismatch")
        raise failure("sin")
"""


def run(pytester: pytest.Pytester, *arguments: str) -> pytest.RunResult:
    """Runs the tests in a process; the data of its machine are made up, which saves importing TensorFlow."""
    return pytester.runpytest_subprocess(*elsewhere(pytester), *arguments)


def elsewhere(pytester: pytest.Pytester) -> tuple[str, ...]:
    """The plugins of a run, including one that is written here."""
    pytester.makepyfile(elsewhere=ELSEWHERE)
    return (*PLUGIN, "-p", "elsewhere")


def run_here(pytester: pytest.Pytester, *arguments: str) -> pytest.RunResult:
    """Runs the tests in this process (or its workers), and undoes what they plant in its modules."""
    loaded: dict[str, Any] = {}

    class Loaded:
        def pytest_unconfigure(self) -> None:
            loaded.update(sys.modules)

    profile = settings.get_current_profile_name()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("gradcheck.runtime._known", [])
        patch.setattr(worker, "confirm", lambda script: Confirmation(1, "WRONG"))
        patch.setattr(confirmation, "confirm", confirmation.confirm)
        patch.setitem(writer.FILES, ".html", writer.FILES[".html"])
        patch.setattr(environment, "current", environment.current)
        patch.setattr(known, "installed", known.installed)
        patch.syspath_prepend(pytester.path)
        patch.setattr("xdist.plugin._sys_path", sys.path)  # that of workers
        result = pytester.runpytest_inprocess(*elsewhere(pytester), *arguments, plugins=[Loaded()])
    settings.load_profile(profile)
    # Pytester removes all modules that were not there before; TensorFlow cannot be loaded twice.
    own = str(pytester.path)
    for name, module in loaded.items():
        if not str(getattr(module, "__file__", None)).startswith(own):
            sys.modules.setdefault(name, module)
    return result


def written(folder: Path) -> list[str]:
    """The names of the findings' reports in a folder."""
    return sorted(path.name for path in folder.iterdir() if path.is_file() and path.name not in OF_THE_RUN)


def rows(result: pytest.RunResult) -> dict[str, list[str]]:
    """The table's rows by their first word."""
    return {line.split()[0]: line.replace("|", " ").split() for line in result.outlines if "|" in line and line.split()}


def test_assert_close_has_the_defaults_of_the_project(pytester: pytest.Pytester) -> None:
    pytester.makefile(".toml", pyproject='[tool.gradcheck]\ninconclusive = "ignore"\norder = 2\n')
    pytester.makepyfile(
        """
        import importlib
        from unittest import mock

        import pytest


        @pytest.fixture(scope="session", autouse=True)
        def called():
            with mock.patch.object(importlib.import_module("gradcheck.check"), "assert_close") as called:
                yield called


        def test_defaults(called, assert_close):
            assert_close(len, 1.0)
            called.assert_called_with(len, 1.0, inconclusive="ignore", order=2)
            assert_close(len, 1.0, order=1, seconds=5)
            called.assert_called_with(len, 1.0, inconclusive="ignore", order=1, seconds=5)
        """
    )
    run(pytester).assert_outcomes(passed=1)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[tool.gradcheck]\nsecond = 3\nrtol = 0.1", "[tool.gradcheck] has 'second'; expected some of inconclusive"),
        ("[tool.gradcheck", "[tool.gradcheck] cannot be read"),
    ],
)
def test_defaults_that_are_none_are_refused(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "pyproject.toml").write_text(text, encoding="utf-8")
    with pytest.raises(pytest.UsageError, match=re.escape(words)):
        project_defaults(tmp_path / "pyproject.toml")
    assert project_defaults(tmp_path / "other.toml") == {}


def test_the_plugin_is_idle_where_nothing_uses_it(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("import sys\ndef test_nothing():\n    assert 'tensorflow' not in sys.modules")
    result = run(pytester)
    result.assert_outcomes(passed=1)
    result.stdout.no_fnmatch_line("*gradcheck*operation*")
    assert "examples" not in result.stdout.str()


def test_a_table_of_the_counts_of_all_workers_ends_the_run_and_its_report_is_of_this_run_alone(
    pytester: pytest.Pytester,
) -> None:
    pytester.makepyfile(COUNTING)
    result = run_here(pytester, "-n", "2", "--dist", "each")
    result.assert_outcomes(passed=4)
    assert rows(result)["sin"][:2] == ["sin", "2"]
    assert rows(result)["total,"][:4] == ["total,", "2", "operations", "4"]
    assert f"report: {Path('reports', 'index.html')}" in result.outlines
    page = (pytester.path / "reports" / "index.html").read_text()
    assert SIN.findall(page) == ["green"]
    assert "before it" not in page
    assert read(pytester.path / "reports" / "events").coverage.modes == {("sin", 1, "forward, eager"): 2}
    result = run_here(pytester, "-k", "cos")
    result.assert_outcomes(passed=1, deselected=1)
    assert rows(result)["total,"][:4] == ["total,", "1", "operations", "1"]
    assert f"report: {Path('reports', 'index.html')}" in result.outlines
    page, summary = ((pytester.path / "reports" / name).read_text() for name in OF_THE_RUN)
    assert ">cos<" in page
    assert SIN.findall(page) == ["blank"], "not reached at order 1"
    assert "with the run before it, 1 and 0." in page
    assert "cos" in summary


@slices.parametrized("workers", [(), ("-n", "1")], slices.every(2))
def test_a_finding_is_written_named_and_printed_in_full(pytester: pytest.Pytester, workers: tuple[str, ...]) -> None:
    pytester.makepyfile(FINDING)
    result = run_here(pytester, *workers)
    result.assert_outcomes(failed=1)
    page, *files = written(pytester.path / "reports")
    assert [Path(name).suffix for name in (page, *files)] == [".html", ".json", ".md", ".py"]
    assert json.loads((pytester.path / "reports" / files[0]).read_text())["confirmation"]["returncode"] == 1
    output = result.stdout.str()
    assert f"new finding: sin, wrong value at order 1: reports/{files[0]}, reports/{files[1]}" in output
    assert (pytester.path / "reports" / files[2]).read_text() in output
    assert rows(result)["sin"][-1] == "1"


def test_paths_are_told_as_seen_from_where_pytest_was_started(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytester.makeini("[pytest]")
    folder = pytester.mkdir("sub")
    (folder / "test_mine.py").write_text(textwrap.dedent(FINDING))
    monkeypatch.chdir(folder)
    result = run_here(pytester)
    assert f"report: {Path('..', 'reports', 'index.html')}" in result.outlines
    assert "wrong value at order 1: ../reports/sin-order1" in result.stdout.str()


def test_the_folder_of_reports_can_be_named(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(FINDING)
    run_here(pytester, "--gradcheck-reports=elsewhere").assert_outcomes(failed=1)
    assert len(written(pytester.path / "elsewhere")) == 4
    assert not (pytester.path / "reports").exists()


def test_where_nothing_can_be_written_the_finding_is_printed_in_full(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(FINDING)
    (pytester.path / "reports").write_text("a file where the folder should be")
    result = run_here(pytester)
    result.assert_outcomes(failed=1)
    output = result.stdout.str()
    assert "NOT WRITTEN: the report sin-order1" in output
    assert "--gradcheck-reports=DIR" in output
    assert "def function(x):" in output
    assert "autodiff 2.0, finite-difference estimate 1.0" in output
    assert "new finding: sin, wrong value at order 1: not written" in output


def test_a_page_that_cannot_be_made_costs_no_other_file(pytester: pytest.Pytester) -> None:
    broken = (
        "from gradcheck.hunt.report import writer\n\n    writer.FILES['.html'] = lambda found: 1 / 0\n\n    class Wrong"
    )
    pytester.makepyfile(FINDING.replace("class Wrong", broken))
    result = run_here(pytester)
    files = written(pytester.path / "reports")
    assert [Path(name).suffix for name in files] == [".json", ".md", ".py"]
    output = result.stdout.str()
    assert "NOT WRITTEN: .html: ZeroDivisionError: division by zero" in output
    assert f"new finding: sin, wrong value at order 1: reports/{files[0]}" in output
    assert f'href="{files[0]}"' in (pytester.path / "reports" / "index.html").read_text()


@slices.parametrized("workers", [("-n", "2"), ()], slices.every(2))
def test_the_report_is_that_of_the_least_graph_of_a_run(pytester: pytest.Pytester, workers: tuple[str, ...]) -> None:
    larger = """
    def test_two(gradcheck_coverage):
        error = failure("sin")
        found = error.finding.graph
        nodes = (*found.nodes, *(Node.of("exp", place) for place in range(1, 6)))
        error.finding = dataclasses.replace(error.finding, graph=Graph(found.inputs, nodes))
        raise error
    """
    pytester.makepyfile(FINDING.replace("import types", "import dataclasses") + larger)
    run_here(pytester, *workers).assert_outcomes(failed=2)
    page, data, markdown, script = written(pytester.path / "reports")
    report = json.loads((pytester.path / "reports" / data).read_text())
    assert [node["op"] for node in report["graph"]["nodes"]] == ["sin"]
    for name in (page, markdown, script):
        assert "tf.exp" not in (pytester.path / "reports" / name).read_text()
    assert "order 1 · 1 operation · error" in (pytester.path / "reports" / "index.html").read_text()


def test_all_findings_of_an_exception_group_are_written(pytester: pytest.Pytester) -> None:
    many = "class Many(Exception):\n        exceptions = property(lambda self: self.args[0])\n\n    class Wrong"
    raising = FINDING.replace('raise failure("sin")', 'raise Many([failure("sin"), failure("cos")])')
    pytester.makepyfile(raising.replace("class Wrong", many))
    result = run_here(pytester)
    result.assert_outcomes(failed=1)
    assert "new finding: sin" in result.stdout.str()
    assert "new finding: cos" in result.stdout.str()
    assert len(written(pytester.path / "reports")) == 8


def test_what_a_finding_runs_once_it_is_shrunk_is_recorded_as_running(pytester: pytest.Pytester) -> None:
    completed = """
    class Completed(Wrong):
        @functools.cached_property
        def finding(self):
            assert monitor.current().listeners
            return finding("sin")

    def test_two(gradcheck_coverage):
        raise Completed()
    """
    imports = "import functools\n    from gradcheck.hunt import monitor"
    pytester.makepyfile(FINDING.replace("import types", imports) + completed)
    result = run_here(pytester, "-k", "two")
    result.assert_outcomes(failed=1)
    assert "new finding: sin" in result.stdout.str()


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ((), True),
        (("tests",), True),
        (("tests/properties/test_hunt.py::test_hunt",), True),
        (("tests/properties",), True),
        (("tests/unit",), False),
        (("tests/unit", "tests/properties"), True),
    ],
)
def test_whether_a_run_hunts_depends_on_its_arguments(
    pytester: pytest.Pytester, arguments: tuple[str, ...], expected: bool
) -> None:
    for folder in ("tests/properties", "tests/unit"):
        (pytester.path / folder).mkdir(parents=True)
    (pytester.path / "tests/properties/test_hunt.py").write_text("def test_hunt(): pass")
    config = pytester.parseconfig(*arguments)
    assert hunts(config, pytester.path / "tests" / "properties") is expected
    assert not hunts(config, pytester.path / "nowhere")


@pytest.mark.parametrize(("arguments", "stopped"), [((), True), (("tests/unit",), False)])
def test_a_broken_file_of_known_defects_stops_the_run_before_it_hunts(
    pytester: pytest.Pytester, arguments: tuple[str, ...], stopped: bool
) -> None:
    for folder in ("tests/properties", "tests/unit", "reports/known"):
        (pytester.path / folder).mkdir(parents=True)
    (pytester.path / "tests/properties/test_hunt.py").write_text("def test_hunt(): print('hunting')")
    (pytester.path / "tests/unit/test_unit.py").write_text("def test_unit(): pass")
    (pytester.path / "reports/known/package.json").write_text('{"name": "foreign"}')
    result = run(pytester, *arguments)
    if stopped:
        assert result.ret == pytest.ExitCode.USAGE_ERROR
        result.stderr.fnmatch_lines(["*package.json: not a known defect of this format: $:*Correct the file*"])
        assert "hunt.py" not in result.stdout.str()
    else:
        assert result.ret == pytest.ExitCode.OK


@slices.parametrized("workers", [(), ("-n", "1")], slices.every(2))
def test_a_project_s_own_record_is_read_once_its_module_is_imported(
    pytester: pytest.Pytester, workers: tuple[str, ...]
) -> None:
    record = "reports/known/fused_ramp-order1.json"
    (pytester.path / record).parent.mkdir(parents=True)
    (pytester.path / record).write_text((THIRD_PARTY / record).read_text())
    (ramp,) = re.findall(r"^@.*\ndef fused_ramp[^@]*", (THIRD_PARTY / "activations.py").read_text(), re.MULTILINE)
    (pytester.path / "activations.py").write_text(f"import gradcheck\n\n{ramp}    pass\n")
    tests = pytester.path / "tests" / "properties" / "test_mine.py"
    tests.parent.mkdir(parents=True)
    tests.write_text("import activations\ndef test_mine(): pass")
    run(pytester, *workers).assert_outcomes(passed=1)
    tests.write_text("def test_mine(): pass")
    result = run(pytester, *workers)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    told = (
        "*fused_ramp-order1.json: *'fused_ramp' was given; *; for pytest, conftest.py or a collected test *import it*"
    )
    (result.stderr if not workers else result.stdout).fnmatch_lines([told])
    assert "passed" not in result.stdout.str()


def test_the_environment_is_set_before_a_conftest_could_import_tensorflow_which_then_has_one_thread(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TF_ENABLE_ONEDNN_OPTS", raising=False)
    monkeypatch.delenv("OPENBLAS_NUM_THREADS", raising=False)
    monkeypatch.setenv("TF_CPP_MIN_LOG_LEVEL", "1")
    pytester.makeconftest(
        """
        import os

        wanted = {"TF_ENABLE_ONEDNN_OPTS": "0", "OPENBLAS_NUM_THREADS": "1", "TF_CPP_MIN_LOG_LEVEL": "1"}
        assert wanted.items() <= os.environ.items()
        """
    )
    pytester.makepyfile(
        """
        import tensorflow as tf

        def test_threads():
            assert tf.config.threading.get_intra_op_parallelism_threads() == 1
            assert tf.config.threading.get_inter_op_parallelism_threads() == 1
        """
    )
    run(pytester).assert_outcomes(passed=1)
