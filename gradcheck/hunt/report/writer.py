"""Writing a report: JSON, Markdown, a script and a page, each file whole or not there at all."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from gradcheck import files
from gradcheck.hunt.finding import GraphFinding
from gradcheck.hunt.report.confirm import Confirmation
from gradcheck.hunt.report.json_report import json_text
from gradcheck.hunt.report.markdown import graph_lines, markdown, over, verdict
from gradcheck.hunt.report.overview_page import overview_page
from gradcheck.hunt.report.run import HuntRun
from gradcheck.hunt.report.summary import summary


class ReportError(OSError):
    """A report could not be written; names the folder and what to do. `text(discovery)` still has all of it."""


def write(discovery: GraphFinding, folder: Path | str, confirmation: Confirmation | None = None) -> tuple[Path, ...]:
    """Writes `<name>` .json, .md, .py and .html into a folder, made if it is missing, and returns their paths.

    What the discovery came without (values, the nodes' own derivatives) and what the page draws is computed first, with
    TensorFlow.

    Files of an earlier run with the same signature are replaced, in one step each (a temporary file, then
    os.replace), so that workers that find the same defect at once never mix their reports. Raises ReportError where
    the folder cannot be made or written to.
    """
    # TensorFlow waits until there is a finding to write: a whole run's report needs none.
    from gradcheck.hunt.report.evidence import completed, evidence
    from gradcheck.hunt.report.finding_page import finding_page

    folder, discovery = Path(folder), completed(discovery)
    contents = {
        ".json": json_text(discovery, confirmation),
        ".md": markdown(discovery, confirmation),
        ".py": discovery.script,
        ".html": finding_page(discovery, evidence(discovery), confirmation),
    }
    return _written(
        folder, {discovery.name + suffix: text for suffix, text in contents.items()}, f"the report {discovery.name}"
    )


def write_run(
    run: HuntRun, folder: Path | str, left_out: Mapping[tuple[str, int], str] | None = None
) -> tuple[Path, ...]:
    """Writes a whole run's `index.html` and `summary.md` into a folder, made if it is missing, and returns their paths.

    The findings' own pages lie beside them. `left_out` maps (operation, order) to the known defect that leaves it no
    use. Raises ReportError where the folder cannot be made or written to. Imports no TensorFlow.
    """
    contents = {"index.html": overview_page(run, left_out), "summary.md": summary(run, left_out)}
    return _written(Path(folder), contents, "the report of the run")


def text(discovery: GraphFinding, confirmation: Confirmation | None = None) -> str:
    """The full finding for a terminal: verdict, graph, comparison and script."""
    lines = [verdict(discovery, confirmation), "", *(f"  {line}" for line in graph_lines(discovery)), ""]
    for finding in discovery.findings:
        lines.append(
            f"  {finding.kind.value}, {finding.input}{'' if finding.index is None else list(finding.index)}: autodiff "
            f"{finding.autodiff}, difference {finding.difference} ± {finding.bound}, allowed {finding.allowed}, off by "
            f"{over(finding)}: {finding.reason}"
        )
    lines += ["", f"report {discovery.name}; script:", "", discovery.script]
    return "\n".join(lines)


def _written(folder: Path, contents: Mapping[str, str], what: str) -> tuple[Path, ...]:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return tuple(files.replace(folder / name, text) for name, text in contents.items())
    except OSError as error:
        raise ReportError(
            f"{what} could not be written to {folder} ({error.strerror or error}); "
            f"give a folder that can be written to with --gradcheck-reports=DIR"
        ) from error
