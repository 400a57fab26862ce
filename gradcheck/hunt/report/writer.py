"""Writes a report: JSON, Markdown, a script and a page, each file complete or absent."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from gradcheck import documents, files
from gradcheck.defects import known
from gradcheck.defects.known import KnownDefectError
from gradcheck.defects.records import Known, version_of
from gradcheck.hunt.finding import GraphFinding
from gradcheck.hunt.json_report import Report
from gradcheck.hunt.report.finding_page import finding_page, markdown
from gradcheck.hunt.report.gradient_reach import RunReach
from gradcheck.hunt.report.known_page import known_page
from gradcheck.hunt.report.run import Earlier, HuntRun
from gradcheck.hunt.report.run_page import NOTHING, LeftOut, run_page, summary


class ReportError(OSError):
    """A report could not be written; names the folder and what to do. `finding_page.text` still has all of it."""


class PageError(Exception):
    """Some of a finding's files could not be made, for whatever reason; `written` are the paths of the others."""

    def __init__(self, failed: Mapping[str, Exception], written: tuple[Path, ...]) -> None:
        reasons = (
            f"{suffix}: {type(error).__name__}: {error}".split("\n")[0][:300] for suffix, error in failed.items()
        )
        super().__init__("; ".join(reasons))
        self.written = written


def write(finding: GraphFinding, folder: Path | str) -> tuple[Path, ...]:
    """Writes `<name>` .json, .md, .py and .html into a folder, made if it is missing, and returns their paths.

    Files of an earlier run with the same signature are replaced, in one step each (a temporary file, then
    os.replace), so that workers that find the same defect at once never mix their reports. Raises ReportError where
    the folder cannot be made or written to, and PageError, once the other files are written, where one cannot be made.
    """
    contents, failed = {}, {}
    for suffix, made in FILES.items():
        try:
            contents[suffix] = made(finding)
        except Exception as error:  # if one of them fails, the others are still written
            failed[suffix] = error
    written = _report(finding, folder, contents)
    if failed:
        for suffix in failed:  # that of an earlier run would be about another graph
            Path(folder, finding.name + suffix).unlink(missing_ok=True)
        raise PageError(failed, written)
    return written


def write_json(finding: GraphFinding, folder: Path | str) -> tuple[Path, ...]:
    """Writes the `.json` alone, which adds nothing to the finding, and returns its path; raises ReportError."""
    return _report(finding, folder, {".json": json_text(finding)})


def json_text(finding: GraphFinding) -> str:
    """The text of the `.json`."""
    return documents.to_text(Report.of(finding))


FILES: dict[str, Callable[[GraphFinding], str]] = {
    ".json": json_text,
    ".md": markdown,
    ".py": lambda finding: finding.script,
    ".html": finding_page,
}


def _report(finding: GraphFinding, folder: Path | str, contents: Mapping[str, str]) -> tuple[Path, ...]:
    named = {finding.name + suffix: text for suffix, text in contents.items()}
    return _written(Path(folder), named, f"the report {finding.name}")


def write_run(
    run: HuntRun,
    folder: Path | str,
    left_out: LeftOut | None = None,
    reach: RunReach | None = None,
    without_page: Mapping[str, str] | None = None,
    earlier: Earlier = NOTHING,
    *,
    known_again: bool = True,
) -> tuple[Path, ...]:
    """Writes a whole run's `index.html` and `summary.md` into a folder, made if it is missing, and returns their paths.

    The findings' own pages lie beside them; so does `known.html`, where the run has replayed known defects. `left_out`
    maps (operation, order) to the known defect that excludes all its uses; `reach` is the run's coverage of
    TensorFlow's gradients, if that was recorded; `without_page` gives the reasons why findings have no page;
    what `earlier` runs have compared stands beside what this one has. A `known.html` of the same run stays as it is
    unless `known_again`: its records do not change meanwhile.
    Raises ReportError where the folder cannot be made or written to. Imports no TensorFlow.
    """
    records = _replayed(run)
    linked = frozenset(one.name for one in records)
    page = run_page(run, left_out, reach, linked, without_page, earlier)
    contents = {"index.html": page, "summary.md": summary(run, left_out, earlier)}
    if records and (known_again or not (Path(folder) / "known.html").exists()):
        contents["known.html"] = known_page(records, max((each.release for each in run.known), key=version_of))
    return _written(Path(folder), contents, "the report of the run")


def without_page(findings: Iterable[GraphFinding], folder: Path) -> dict[str, str]:
    """The findings without a page in the folder: by name, the reason for the page of the run."""
    return {found.name: "has no page" for found in findings if not (folder / f"{found.name}.html").exists()}


def _replayed(run: HuntRun) -> Sequence[Known]:
    """The records of known defects, if the run has replayed any that still exist; none if they cannot be read."""
    names = {each.name for each in run.known}
    with suppress(KnownDefectError):
        records = known.records() if names else ()
        return records if names & {one.name for one in records} else ()
    return ()


def _written(folder: Path, contents: Mapping[str, str], what: str) -> tuple[Path, ...]:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return tuple(files.replace(folder / name, text) for name, text in contents.items())
    except OSError as error:
        raise ReportError(
            f"{what} could not be written to {folder} ({error.strerror or error}); "
            f"give a folder that can be written to with --gradcheck-reports=DIR"
        ) from error
