"""A finding as TensorFlow's issue form asks for it, field by field, ready to be pasted."""

from __future__ import annotations

from gradcheck.hunt.finding import GraphFinding
from gradcheck.hunt.report.confirm import Confirmation
from gradcheck.hunt.report.sentence import sentence

ASK = "(please fill in)"


def issue_title(found: GraphFinding) -> str:
    """The title of the issue."""
    where = "" if found.description == "none" else f" ({found.description})"
    return f"Gradient of order {found.order} of {found.culprit}: {found.signature.kind.value}{where}"


def issue_form(found: GraphFinding, confirmation: Confirmation | None = None) -> str:
    """The form's fields with their answers, in its order; what only a person can know says so.

    The fields are those of .github/ISSUE_TEMPLATE/tensorflow_issue_template.yaml in TensorFlow's repository.
    """
    machine = found.environment
    said = sentence(found, code=lambda name: f"`{name}`")
    behaviour = "\n".join([said, "", *(f"- {wrong.element}: {wrong.reason}" for wrong in found.findings)])
    short = {
        "Title": issue_title(found),
        "Issue type": "Bug",
        "Have you reproduced the bug with TensorFlow Nightly?": ASK,
        "Source": "binary" if machine is None or "dev" not in machine.tensorflow else ASK,
        "TensorFlow version": "unknown" if machine is None else machine.tensorflow,
        "Custom code": "No",
        "OS platform and distribution": "unknown" if machine is None else machine.platform,
        "Mobile device": "",
        "Python version": "unknown" if machine is None else machine.python,
        "Bazel version": "",
        "GCC/compiler version": "",
        "CUDA/cuDNN version": "",
        "GPU model and memory": "",
    }
    long = {
        "Current behavior?": behaviour,
        "Standalone code to reproduce the issue": found.script.rstrip(),
        "Relevant log output": "" if confirmation is None else confirmation.output,
    }
    lines = [f"{name}: {answer}".rstrip() for name, answer in short.items()]
    return "\n".join([*lines, *(f"\n{name}\n\n{answer}".rstrip() for name, answer in long.items())]) + "\n"
