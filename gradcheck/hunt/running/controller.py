"""The pytest hooks of the process that the user started: progress while it runs, then the table and advice."""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from gradcheck.hunt.configuration import RunConfiguration
from gradcheck.hunt.coverage import table
from gradcheck.hunt.running.aggregate import Aggregate
from gradcheck.hunt.running.project_operations import REFUSED, load, named

SENT, ORIGINS = "gradcheck", "gradcheck_origins"
EVERY = 0.2


class Controller:
    """Shows a run. `hunts` says whether it hunts, with the properties or with operations that were named."""

    def __init__(self, config: pytest.Config, configuration: RunConfiguration, hunts: bool) -> None:
        self.config = config
        self.aggregate = Aggregate(configuration)
        self._hunts = self._to_recover = hunts
        self._shown = 0.0
        self._nodes: list[Any] = []
        self._origins: set[tuple[str, ...]] = set()
        self._interrupted = self._refused = False

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Records the number of tests, if this process runs them itself."""
        self.aggregate.progress.total = len(session.items)

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, ids: list[str]) -> None:
        """Records the number of tests that a worker collected."""
        self.aggregate.progress.total = len(ids)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self) -> None:
        """Recovers what killed runs left: if this process runs the tests, it has imported the project's modules by
        now."""
        self._recover()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Adds up what a test sent, after loading the project's operations that its worker has."""
        if hasattr(report, ORIGINS):
            self.aggregate.remarks.update(dict.fromkeys(self._load(getattr(report, ORIGINS))))
            self._recover()
        sent = getattr(report, SENT, None)
        if sent is not None:
            self.aggregate.add(report.nodeid, sent, skipped=report.skipped)
        if self._hunts:
            self.aggregate.show()
        if report.when == "teardown":
            progress, now = self.aggregate.progress, time.monotonic()
            progress.done += 1
            if progress.examples and self._line and now - self._shown >= EVERY:
                self._shown = now
                reporter: Any = self.config.pluginmanager.get_plugin("terminalreporter")
                reporter.rewrite(progress.line(), erase=True)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodeready(self, node: Any) -> None:
        """Records a worker."""
        self._nodes.append(node)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any, error: Any) -> None:
        """Reports what a worker that died was running, or why one refused to begin."""
        refusal = getattr(node, "workeroutput", {}).get(REFUSED)
        if refusal:
            self.aggregate.remarks[refusal] = None
            self._refused = True
        if error:
            self._look_into(node)

    def pytest_keyboard_interrupt(self) -> None:
        """Records that the run was interrupted by Ctrl-C."""
        self._interrupted = True

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Closes the run."""
        if self._refused:
            session.exitstatus = pytest.ExitCode.USAGE_ERROR
        for node in self._nodes if self._interrupted else ():
            self._look_into(node)
        self.aggregate.close(interrupted=self._interrupted)

    @pytest.hookimpl(tryfirst=True)
    def pytest_report_teststatus(self, report: pytest.TestReport) -> tuple[str, str, str] | None:
        """Prints no dot for a test that the progress line counts."""
        if self._line and report.passed and report.when == "call" and hasattr(report, SENT):
            return "passed", "", "PASSED"
        return None

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Prints the table, crashes, hangs, remarks and the page, if there are any."""
        aggregate = self.aggregate
        findings = [
            {**finding, "files": [self._relative(path) for path in finding["files"]]}
            for _, finding in sorted(aggregate.findings.items())
        ]
        if not (aggregate.coverage or findings or aggregate.crashes or aggregate.remarks or aggregate.page):
            return
        terminalreporter.section("gradcheck")
        terminalreporter.write_line(table(aggregate.coverage, findings))
        for name, event in sorted(aggregate.crashes.items()):
            terminalreporter.write_line(f"new {event.kind}: {name}: {event.message}")
            terminalreporter.write_line("\n".join(f"  {line}" for line in str(event.graph).split("\n")))
        for remark in aggregate.remarks:
            terminalreporter.write_line(f"note: {remark}")
        if aggregate.page is not None:
            terminalreporter.write_line(f"report: {self._relative(str(aggregate.page))}")
        if self._interrupted or aggregate.cut_short:
            why = "interrupted" if self._interrupted else f"the {aggregate.configuration.minutes:g} minutes are over"
            folder = self._relative(str(aggregate.configuration.folder))
            command = shlex.join(["python", "-m", "pytest", *self.config.invocation_params.args])
            first = " (examples that failed are tried first)" if self._keeps_examples else ""
            terminalreporter.write_line(f"{why}: all that was found is in {folder}. To go on: {command}{first}")

    def _load(self, sent: list[list[str]]) -> list[str]:
        """Imports the modules of a worker's operations, each once; returns messages about those that cannot be
        imported."""
        new = [each for each in sent if tuple(each) not in self._origins]
        self._origins.update(map(tuple, new))
        return load(new)

    def _recover(self) -> None:
        """Reports what killed runs left behind, once the project's operations are known."""
        if self._to_recover:
            self._to_recover = False
            self.aggregate.configuration = replace(self.aggregate.configuration, operations=named(self.config))
            self.aggregate.recover()

    def _look_into(self, node: Any) -> None:
        """Reports what a worker that has died was running; xdist kills those that do not end soon after Ctrl-C."""
        from gradcheck.hunt.running.crashes import OUTSIDE

        record, code = self.aggregate.configuration.record(node.gateway.id), _returncode(node)
        if self._interrupted and (code is None or code in OUTSIDE):
            record.unlink(missing_ok=True)
        else:
            self.aggregate.report_crashes([record], code)

    def _relative(self, path: str) -> str:
        with contextlib.suppress(ValueError):  # another drive
            return os.path.relpath(path, self.config.invocation_params.dir)
        return path

    @property
    def _keeps_examples(self) -> bool:
        """Whether failing examples of the hunt are kept in a database, which Hypothesis's own profile does not do."""
        from hypothesis import settings

        hunts = settings.get_current_profile_name() != "default" or self.config.getoption("--hypothesis-seed", None)
        return settings().database is not None and bool(hunts)

    @property
    def _line(self) -> bool:
        """Whether there is a terminal with room for a line of progress."""
        reporter = self.config.pluginmanager.get_plugin("terminalreporter")
        quiet = reporter is None or not reporter.isatty or reporter.verbosity != 0
        return not quiet and not os.environ.get("CI") and self.config.getoption("capture") != "no"


def _returncode(node: Any) -> int | None:
    """The exit code of a worker's process, where execnet started one."""
    popen: Any = getattr(getattr(node.gateway, "_io", None), "popen", None)
    with contextlib.suppress(Exception):
        return int(popen.wait(timeout=10))
    return None


def stopped_by_kill() -> Callable[[], Any]:
    """Let SIGTERM end the run as Ctrl-C does, the second one at once; return a function that restores its effect."""
    if threading.current_thread() is not threading.main_thread() or signal.getsignal(signal.SIGTERM) != signal.SIG_DFL:
        return lambda: None

    def stop(number: int, frame: FrameType | None) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        raise KeyboardInterrupt("killed by SIGTERM")

    signal.signal(signal.SIGTERM, stop)
    return partial(signal.signal, signal.SIGTERM, signal.SIG_DFL)


def hunts(config: pytest.Config, folder: Path) -> bool:
    """Whether the arguments ask for tests in this folder."""
    arguments = config.args or [str(config.rootpath)]
    paths = [(config.invocation_params.dir / one.partition("::")[0]).resolve() for one in arguments]
    return folder.is_dir() and any(folder.is_relative_to(path) or path.is_relative_to(folder) for path in paths)
