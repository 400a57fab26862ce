"""The Markdown of a whole run, such as for the summary that GitHub shows of a step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gradcheck.hunt.coverage import table
from gradcheck.hunt.events import State
from gradcheck.hunt.report.known_section import latest
from gradcheck.hunt.report.markdown import escape, over, verdict
from gradcheck.hunt.report.overview_page import examples, headline, rate
from gradcheck.hunt.report.reach import Grade, Reach, reaches
from gradcheck.hunt.report.run import HuntRun

SHOWN = 20


def summary(run: HuntRun, left_out: Mapping[tuple[str, int], str] | None = None) -> str:
    """Counts; findings, the most severe first; known defects that changed; what was hardly tested; the whole table.

    `left_out` is as for `overview_page`. Imports no TensorFlow.
    """
    reached = reaches(run, left_out)
    sections = [f"# gradcheck: {headline(run)}", _counts(run, reached)]
    if run.findings:
        sections.append("## Findings\n\n" + "\n\n".join(_findings(run)))
    for stopped in (*run.crashes, *run.hangs):
        sections.append(f"**{stopped.kind}** of `{stopped.operation}` at {stopped.where}: {escape(stopped.message)}")
    changed = [each for each in run.known if each.state is not State.STILL]
    if changed:
        rows = [f"- `{escape(each.name)}` on {escape(each.release)}: {each.state.value}" for each in changed]
        sections.append("## Known defects that changed\n\n" + "\n".join(rows))
    weak = [each for each in reached if each.grade in (Grade.RED, Grade.YELLOW)]
    if weak:
        sections.append("## Hardly tested\n\n" + "\n".join(_weak(weak)))
    sections += [f"Note: {escape(remark)}" for remark in run.remarks]
    if run.coverage:
        folded = f"<details><summary>Every operation</summary>\n\n```text\n{table(run.coverage)}\n```\n\n</details>"
        sections.append(folded)
    return "\n\n".join(sections) + "\n"


def _counts(run: HuntRun, reached: Sequence[Reach]) -> str:
    states, speed = latest(run), rate(run)
    tested = [
        f"{sum(each.grade is Grade.GREEN for each in reached if each.order == order)} at order {order}"
        for order in (1, 2)
    ]
    parts = [f"{examples(run):,} examples", f"operations tested: {', '.join(tested)}"]
    parts += [f"{speed:.3g} examples a second"] if speed is not None else []
    parts += [f"known defects: {states[State.STILL]} still there, {states[State.FIXED]} fixed"] if run.known else []
    return "; ".join(parts) + "."


def _findings(run: HuntRun) -> list[str]:
    return [
        f"- **{escape(each.discovery.culprit)}**, off by {over(each.discovery.findings[0])}: "
        f"{verdict(each.discovery, each.confirmation)} `{each.discovery.name}`"
        for each in run.ranked
    ]


def _weak(weak: Sequence[Reach]) -> list[str]:
    ordered = sorted(weak, key=lambda each: (each.compared, -each.order, each.operation))
    rows = [f"- `{each.operation}` at order {each.order}: {each.reason}" for each in ordered[:SHOWN]]
    return rows + ([f"- and {len(weak) - SHOWN} more"] if len(weak) > SHOWN else [])
