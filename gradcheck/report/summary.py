"""The Markdown of a whole run, also for the summary that GitHub shows of a step."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from gradcheck.report.events import State
from gradcheck.report.known_section import latest
from gradcheck.report.markdown import escape, over, verdict
from gradcheck.report.overview_page import examples, headline, rate
from gradcheck.report.reach import Grade, Reach, reaches
from gradcheck.report.run import Run

VARIABLE = "GITHUB_STEP_SUMMARY"
LIMIT = 2**20
"""GitHub refuses a step's summary of more bytes than these."""

SHOWN = 20


def summary(run: Run, left_out: Mapping[tuple[str, int], str] | None = None) -> str:
    """Findings with their verdicts, the most severe first; counts; known defects that changed; what was hardly tested.

    `left_out` is as for `overview_page`. Imports no TensorFlow.
    """
    reached = reaches(run, left_out)
    sections = [f"# gradcheck: {headline(run)}", _counts(run, reached)]
    if run.findings:
        sections.append("## Findings\n\n" + "\n\n".join(_findings(run)))
    for stopped in (*run.crashes, *run.hangs):
        sections.append(
            f"**{stopped.kind}** of `{stopped.operation}` at order {stopped.order}: {escape(stopped.message)}"
        )
    changed = [each for each in run.known if each.state is not State.STILL]
    if changed:
        rows = [f"- `{escape(each.name)}` on {escape(each.release)}: {each.state.value}" for each in changed]
        sections.append("## Known defects that changed\n\n" + "\n".join(rows))
    weak = [each for each in reached if each.grade in (Grade.RED, Grade.YELLOW)]
    if weak:
        sections.append("## Hardly tested\n\n" + "\n".join(_weak(weak)))
    sections += [f"Note: {escape(remark)}" for remark in run.remarks]
    return "\n\n".join(sections) + "\n"


def append_to_step_summary(text: str) -> Path | None:
    """Adds a text to the file that GITHUB_STEP_SUMMARY names, and returns its path; None where it names none.

    Cuts the text where GitHub's limit of 1 MiB a step would be passed. Raises OSError where the file cannot be written.
    """
    named = os.environ.get(VARIABLE)
    if not named:
        return None
    path = Path(named)
    room = LIMIT - (path.stat().st_size if path.exists() else 0)
    with path.open("ab") as file:
        file.write(text.encode()[: max(room, 0)].decode(errors="ignore").encode())
    return path


def _counts(run: Run, reached: Sequence[Reach]) -> str:
    states, speed = latest(run), rate(run)
    tested = [
        f"{sum(each.grade is Grade.GREEN for each in reached if each.order == order)} at order {order}"
        for order in (1, 2)
    ]
    parts = [f"{examples(run):,} examples", f"operations tested: {', '.join(tested)}"]
    parts += [f"{speed:.3g} examples a second"] if speed is not None else []
    parts += [f"known defects: {states[State.STILL]} still there, {states[State.FIXED]} fixed"] if run.known else []
    return "; ".join(parts) + "."


def _findings(run: Run) -> list[str]:
    return [
        f"- **{escape(each.discovery.culprit)}**, off by {over(each.discovery.findings[0])}: "
        f"{verdict(each.discovery, each.confirmation)} `{each.discovery.name}`"
        for each in run.ranked
    ]


def _weak(weak: Sequence[Reach]) -> list[str]:
    ordered = sorted(weak, key=lambda each: (each.compared, -each.order, each.operation))
    rows = [f"- `{each.operation}` at order {each.order}: {each.reason}" for each in ordered[:SHOWN]]
    return rows + ([f"- and {len(weak) - SHOWN} more"] if len(weak) > SHOWN else [])
