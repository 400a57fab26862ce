"""The verdict on a discovery in one sentence, for Markdown, HTML and terminals alike."""

from __future__ import annotations

from collections.abc import Callable

from gradcheck.autodiff.mode import PLAIN
from gradcheck.hunt.catalogue import CATALOGUE
from gradcheck.hunt.finding import GraphFinding
from gradcheck.hunt.report.confirm import Confirmation
from gradcheck.result import Kind

ORDINAL = {1: "first", 2: "second"}
COMPLAINT = {
    Kind.RAISES: "throws, although the function is computed",
    Kind.SHAPE: "has the wrong shape or dtype",
    Kind.MISSING: "is None, although the function depends on the input",
    Kind.PARTIAL: "lacks a part of the dependence",
    Kind.NON_FINITE: "is not finite at a point where the function is smooth",
    Kind.WRONG_VALUE: "has a wrong value",
    Kind.SUBDIFFERENTIAL: "lies outside of the one-sided slopes at a kink",
    Kind.UPDATE: "is not what a variable moves by",
    Kind.MODES: "depends on how TensorFlow runs it",
}


def sentence(
    found: GraphFinding,
    confirmation: Confirmation | None = None,
    *,
    text: Callable[[str], str] = str,
    code: Callable[[str], str] = str,
) -> str:
    """The verdict. `text` and `code` write what comes from the discovery, as words and as names of operations.

    >>> from gradcheck.finding import Finding
    >>> from gradcheck.graphs.graph import Graph, Input, Node
    >>> one = Input((1,), (1.0,))
    >>> wrong = Finding(Kind.WRONG_VALUE, 1, "x", (0,), None, 2.0, 1.0, 1e-12, 1e-11, "")
    >>> sentence(Discovery(Graph((one,), (Node.of("sin", 0),)), 1, (wrong,), "sin", 1, "none", one), code=repr)
    "In TensorFlow, the first derivative of 'sin' has a wrong value; its backward pass goes through the gradient \
registered for 'Sin'."
    """
    taken = "" if found.taken == PLAIN else f", taken as {text(str(found.taken))},"
    where = "" if found.description == "none" else f" ({text(found.description)})"
    functions = CATALOGUE[found.culprit].gradients if found.culprit in CATALOGUE else ()
    registered = ", ".join(map(code, functions))
    through = f"; its backward pass goes through the gradient registered for {registered}" if registered else ""
    release = f"TensorFlow {text(found.environment.tensorflow)}" if found.environment else "TensorFlow"
    sure = ""
    if confirmation is not None:
        sure = " A fresh process confirms it." if confirmation.confirmed else " A fresh process did not confirm it."
    return (
        f"In {release}, the {ORDINAL[found.order]} derivative of {code(found.culprit)}{where}{taken} "
        f"{COMPLAINT[found.signature.kind]}{through}.{sure}"
    )
