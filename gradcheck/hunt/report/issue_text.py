"""Texts for TensorFlow's issue form: its fields, with the answers that are known."""

from __future__ import annotations

from gradcheck.defects.records import Defect, Known, TapeDefect
from gradcheck.hunt.environment import Environment
from gradcheck.hunt.known_graphs import example_of
from gradcheck.hunt.report.rendering import render
from gradcheck.hunt.script import variables
from gradcheck.hunt.tapes import program_forms
from gradcheck.operations.printed_calls import repeated
from gradcheck.result import Kind


def issue_text(
    title: str, behaviour: str, script: str, environment: Environment | None = None, output: str | None = None
) -> str:
    """The form's fields with their answers, in its order; those that only a person can fill in say so.

    The fields are those of .github/ISSUE_TEMPLATE/tensorflow_issue_template.yaml in TensorFlow's repository.
    """
    return render(
        "issue_form.txt.j2",
        title=title,
        behaviour=behaviour,
        script=script,
        environment=environment,
        output=output,
        ask="(please fill in)",
    )


def issue_of(record: Known, environment: Environment | None = None, *, script: str | None = None) -> str:
    """The text of an issue about a known defect: what is given, what is right and how that is known, a script.

    `script` is the record's own, if that was made before.
    """
    behaviour = record.by_kind(_behaviour, _behaviour_of_tape)
    return issue_text(record.title, behaviour, script or record.by_kind(script_of, script_of_tape), environment)


def script_of(defect: Defect) -> str:
    """The reproduction script of a known defect: TensorFlow and NumPy only."""
    return example_of(defect).script(defect.title, one_sided=defect.kind is Kind.SUBDIFFERENTIAL)


def script_of_tape(record: TapeDefect) -> str:
    """The program of a record of tapes, as Python."""
    return program_forms.to_python(record.program)


def _behaviour_of_tape(record: TapeDefect) -> str:
    result = f"`{record.derivative}` is {_said(record.given)}; it should be {_said(record.documented)}."
    return f"{record.title}.\n\n{result}\n\n{record.source}"


def _behaviour(defect: Defect) -> str:
    lines = [f"{defect.title}.", ""]
    for place, name in enumerate(variables(example_of(defect).graph)[: len(defect.graph.inputs)]):
        given = _said(defect.wrong[place]) if defect.given else defect.kind
        lines.append(f"- derivative by {name}: {given}; right: {_said(defect.right[place])}")
    lines += ["", defect.source]
    if defect.remedy is not None:
        lines += ["", "What has the same value, and the right derivative:", "", *defect.remedy.split("\n")]
    return "\n".join(lines)


def _said(value: object) -> str:
    return repeated(list(value)) or str(list(value)) if isinstance(value, tuple) else str(value)
