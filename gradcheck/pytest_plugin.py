"""Opt-in pytest hooks (`-p gradcheck.pytest_plugin`): settings, known defects, reports, the table at the end.

Importing this module imports neither TensorFlow nor NumPy. An exception of a failing test that carries a
`discovery` attribute (a gradcheck.report.discovery.Discovery) is run in a fresh process and written to the folder of
reports.
"""

from __future__ import annotations

import json
import os
from collections.abc import Generator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from gradcheck import runtime

if TYPE_CHECKING:
    from gradcheck.coverage import Coverage

COVERAGE: pytest.StashKey[Any] = pytest.StashKey()
FINDINGS: pytest.StashKey[list[dict[str, Any]]] = pytest.StashKey()
PROPERTIES = Path("tests", "properties")
SENT = "gradcheck"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds --gradcheck-reports."""
    runtime.set_environment()
    parser.getgroup("gradcheck").addoption(
        "--gradcheck-reports",
        metavar="DIR",
        default=None,
        help="folder for reports of wrong gradients (default: reports/ in the root folder)",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Reads the known defects before anything is collected, if the properties are going to run."""
    config.stash[FINDINGS] = []
    known = config.rootpath / "reports" / "known"
    if known.is_dir():
        runtime.set_known(known)
    if not hasattr(config, "workerinput") and _asked_for(config, config.rootpath / PROPERTIES):
        from gradcheck.known import KnownDefectError, load

        try:
            load()
        except KnownDefectError as error:
            raise pytest.UsageError(str(error)) from None


@pytest.fixture(scope="session")
def gradcheck_coverage(pytestconfig: pytest.Config) -> Coverage:
    """The counts of this process, for `coverage.count(...)`; the table at the end adds up all workers."""
    return _coverage(pytestconfig)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """One thread a worker, as soon as something has loaded TensorFlow."""
    runtime.configure_if_loaded()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[Any]) -> Generator[None, Any, Any]:
    """Writes the discoveries that a failing test's exception carries."""
    report = yield
    if call.excinfo is not None and call.when == "call":
        for number, discovery in enumerate(_discoveries(call.excinfo.value)):
            report.sections.append((f"gradcheck finding {number + 1}", _recorded(item.config, discovery)))
    return report


def record(config: pytest.Config, discovery: Any) -> str:
    """Confirms a discovery in a fresh process, writes its report, and returns the full text.

    A folder that cannot be written to is said in the text; the finding is all in it.
    """
    from gradcheck.report.confirm import confirm
    from gradcheck.report.writer import ReportError, text, write

    confirmation = confirm(discovery.script)
    told = [text(discovery, confirmation), confirmation.output]
    try:
        files = [str(path) for path in write(discovery, reports(config), confirmation)]
        told += ["", *(f"written: {path}" for path in files)]
    except ReportError as error:
        files = []
        told += ["", f"NOT WRITTEN: {error}"]
    signature = discovery.signature
    finding = {
        "operation": signature.culprit,
        "order": signature.order,
        "kind": signature.kind.value,
        "name": discovery.name,
        "files": [os.path.relpath(path, config.rootpath) for path in files],
    }
    config.stash[FINDINGS].append(finding)
    return "\n".join(told)


def _recorded(config: pytest.Config, discovery: Any) -> str:
    try:
        return record(config, discovery)
    except Exception as error:
        return f"NOT WRITTEN: {type(error).__name__}: {error}\n\n{discovery!r}"


def reports(config: pytest.Config) -> Path:
    """The folder of the reports: --gradcheck-reports, or else `reports` in the root folder."""
    given = config.getoption("--gradcheck-reports")
    return config.rootpath / "reports" if given is None else config.invocation_params.dir / given


def pytest_sessionfinish(session: pytest.Session) -> None:
    """A worker sends its counts and findings to the controller."""
    output = getattr(session.config, "workeroutput", None)
    if output is not None:
        counts = session.config.stash.get(COVERAGE, None)
        findings = session.config.stash[FINDINGS]
        output[SENT] = json.dumps([counts.to_json() if counts is not None else None, findings])


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: Any) -> None:
    """The controller adds up what a worker sent; a worker that crashed has sent nothing."""
    sent = getattr(node, "workeroutput", {}).get(SENT)
    if sent is None:
        return
    counts, findings = json.loads(sent)
    if counts is not None:
        from gradcheck.coverage import Coverage

        _coverage(node.config).merge(Coverage.from_json(counts))
    node.config.stash[FINDINGS].extend(findings)


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """The table, if properties ran."""
    coverage, findings = config.stash.get(COVERAGE, None), _once(config.stash[FINDINGS])
    if not coverage and not findings:
        return
    from gradcheck.coverage import table

    terminalreporter.section("gradcheck")
    terminalreporter.write_line(table(_coverage(config), findings))


def _coverage(config: pytest.Config) -> Coverage:
    if COVERAGE not in config.stash:
        from gradcheck.coverage import Coverage

        config.stash[COVERAGE] = Coverage()
    counts: Coverage = config.stash[COVERAGE]
    return counts


def _asked_for(config: pytest.Config, folder: Path) -> bool:
    if not folder.is_dir():
        return False
    for argument in config.args or [str(config.rootpath)]:
        path = (config.invocation_params.dir / argument.partition("::")[0]).resolve()
        if folder.is_relative_to(path) or path.is_relative_to(folder):
            return True
    return False


def _discoveries(error: BaseException) -> list[Any]:
    carried = getattr(error, "discovery", None)
    found = [carried] if carried is not None else []
    for inner in getattr(error, "exceptions", ()):
        found += _discoveries(inner)
    return found


def _once(findings: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted({finding["name"]: finding for finding in findings}.values(), key=lambda finding: str(finding["name"]))
