"""Gradients that are all one number times the right ones: which number of the step that is, and what to do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import isfinite, log2
from typing import Any

import tensorflow as tf

from gradcheck.diagnosis.wrong_gradient import LostPart
from gradcheck.result import Cause, Diagnosis, Finding
from gradcheck.training.gradient_changes import GradientChange
from gradcheck.training.step_run import StepRun, TapeGradient

NEAR = 1e-4
"""Factors count as equal if they differ by at most this part of them."""
LOSS_SCALE = 64
"""Loss scales are powers of two from here on."""

ALL = "all gradients are {:.6g} times the right ones"
SOUGHT = "look for the factor {:.6g} between the loss that the step returns and the gradients that it uses"
ONE_TAPE = (
    "open one tape around the loop of the passes; if gradients are to end there (truncated backpropagation through "
    "time), nothing is wrong"
)
REPLICAS = (
    "reduce the gradients as the loss is reduced: with MEAN where the loss is the mean over the replicas, with SUM "
    "where it is their sum; or divide the loss of each replica by the global batch (tf.nn.compute_average_loss), and "
    "reduce both with SUM"
)
PASSES = (
    "divide the summed gradients by {count}, as the loss is the mean of the passes, or return the sum of the losses"
)
UNCHANGED = "use the {total} of the tapes' gradients, without the factor"
MULTIPLE = "let the tape differentiate what the step returns, or return what the tape differentiates"
REWARD = f"{MULTIPLE} (for a reward, which is to rise, that is its negative)"
SCALED = "divide the gradients by {scale} before they are used, or use a LossScaleOptimizer, which does that"


def factor_of(findings: Sequence[Finding]) -> float | None:
    """The number by which the derivatives of all findings differ from their estimates; None if there is none.

    The finding that is largest by its allowed error says it, the others have to fit.
    """
    found = [(one.autodiff, one.difference, one.allowed) for one in findings]
    known = [(given, right, allowed) for given, right, allowed in found if given and right and allowed]
    if not known or len(known) < len(found):
        return None
    given, right, _ = max(known, key=lambda one: abs(one[1]) / one[2])
    factor = given / right
    fits = all(abs(given - factor * right) <= max(1.0, abs(factor)) * allowed for given, right, allowed in known)
    return factor if isfinite(factor) and fits else None


def is_close(one: float, other: float) -> bool:
    """Whether two factors are equal."""
    return abs(one - other) <= NEAR * abs(other)


def meaning(factor: float, numbers: Mapping[int, str]) -> str:
    """The number of a step that a factor, or its reciprocal, equals, as the end of a sentence; empty if there is none.

    >>> meaning(-1.0, {}), meaning(8.0, {8: "the 8 samples of inputs[0]"}), meaning(0.3, {})
    (': the sign is wrong', ', as many as the 8 samples of inputs[0]', '')
    >>> meaning(0.125, {8: "the 8 samples of inputs[0]"})
    ', one part in as many as the 8 samples of inputs[0]'
    """
    if is_close(factor, -1.0):
        return ": the sign is wrong"
    for count, of in numbers.items():
        if count > 1 and is_close(abs(factor), count):
            return f", as many as {of}"
        if count > 1 and is_close(abs(factor), 1 / count):
            return f", one part in as many as {of}"
    return ""


def diagnosis_of_factor(run: StepRun, factor: float, numbers: Mapping[int, str]) -> Diagnosis | None:
    """Diagnose gradients that are `factor` times the right ones by the tapes' gradients and losses.

    `numbers` are counts of samples and elements with their descriptions. Returns None if neither the sum of several
    tapes' gradients nor a multiple of the loss explains the factor.
    """
    start = ALL.format(factor)
    return _of_several_tapes(run, factor, start) or _of_a_multiple(run, factor, start, numbers)


def without_factor(finding: Finding) -> bool:
    """Whether the cause of a finding is no wrong operation, and says no factor: a change without its place does."""
    diagnosis = finding.diagnosis
    if diagnosis is None or diagnosis.cause is Cause.COMPOSITION:
        return True
    return diagnosis.cause is Cause.CHANGED_AFTERWARDS and diagnosis.place is not None


def with_factor(finding: Finding, factor: float, numbers: Mapping[int, str]) -> Finding:
    """The finding, with a cause that says which factor all gradients have in common."""
    evidence = f"{ALL.format(factor)}{meaning(factor, numbers)}"
    diagnosis = finding.diagnosis or Diagnosis(Cause.COMPOSITION, "", SOUGHT.format(factor))
    evidence = f"{evidence}; {diagnosis.evidence}" if diagnosis.evidence else evidence
    return replace(finding, diagnosis=replace(diagnosis, evidence=evidence))


def diagnosis_of_passes(run: StepRun, finding: Finding, covering: float) -> Diagnosis | None:
    """Diagnose gradients that are the sum, or the mean, of those of several tapes, as the loss is, and not right yet.

    As the derivative under a tape around everything, `covering`, is right, no operation is wrong: a pass depends on
    what an earlier one computed, which its own tape did not record.
    """
    found = [run.from_tapes(variable) for variable in run.variables]
    taken = [one for one in run.of_variables if any(map(one.has, run.variables))]
    count, right = len(taken), finding.difference
    if count < 2 or right is None or abs(covering - right) > (finding.allowed or 0.0):
        return None
    if any(len(of_one) != count or any(one is None for one in of_one) for of_one in found):
        return None
    change = GradientChange.between([_total(of_one) for of_one in found], run.gradients)
    losses = sum(float(run.unscaled_loss(one)) for one in taken)
    part = None if change is None else change.factor
    if part is None or not losses or not is_close(float(run.loss) / losses, part):
        return None
    lost = LostPart(finding.autodiff, right, covering)
    total = "sum" if is_close(part, 1.0) else "mean" if is_close(part, 1 / count) else f"sum, times {part:.6g},"
    evidence = (
        f"{lost.summary}: the step uses the {total} of the gradients of {count} tapes, as its loss is that of theirs, "
        "but what one pass hands to the next (a state) is a constant for the tape of the next"
    )
    return Diagnosis(Cause.OUTSIDE_TAPE, evidence + lost.remedied, ONE_TAPE)


def _of_several_tapes(run: StepRun, factor: float, start: str) -> Diagnosis | None:
    """Diagnose sums, or means, of gradients that several tapes took, where the loss is not made of theirs that way."""
    found = [run.from_tapes(variable) for variable in run.variables]
    counts = {len(of_one) for of_one in found}
    taken = [one for one in run.of_variables if any(map(one.has, run.variables))]
    if len(counts) != 1 or (count := counts.pop()) < 2 or any(one is None for of_one in found for one in of_one):
        return None
    change = GradientChange.between([_total(of_one) for of_one in found], run.gradients)
    if change is None or (part := change.factor) is None:
        return None
    replicas = max(one.replicas for one in taken)
    passes = count // replicas
    if is_close(part, 1.0):
        if replicas > 1 and is_close(factor, replicas):
            evidence = f"as many as there are replicas: their {count} gradients are summed, the loss is their mean"
            return Diagnosis(Cause.CHANGED_AFTERWARDS, f"{start}, {evidence}", REPLICAS)
        if is_close(factor, passes) or is_close(factor, count):
            evidence = f"as many as there are passes: their {count} gradients are summed, the loss is their mean"
            return Diagnosis(Cause.CHANGED_AFTERWARDS, f"{start}, {evidence}", PASSES.format(count=round(factor)))
    if replicas > 1 and is_close(part, 1 / replicas) and is_close(factor, 1 / replicas):
        evidence = f"one part in {replicas}, as there are replicas: their gradients are averaged, the loss is their sum"
        return Diagnosis(Cause.CHANGED_AFTERWARDS, f"{start}, {evidence}", REPLICAS)
    for total, right in (("sum", 1.0), ("mean", 1 / count)):
        if is_close(part, factor * right):
            evidence = f"the {total} of the {count} gradients that its tapes took is right, and was multiplied"
            return Diagnosis(Cause.CHANGED_AFTERWARDS, f"{start}; {evidence}", UNCHANGED.format(total=total))
    return None


def _total(gradients: Sequence[Any]) -> Any:
    return tf.add_n([tf.convert_to_tensor(one) for one in gradients])


def _of_a_multiple(run: StepRun, factor: float, start: str, numbers: Mapping[int, str]) -> Diagnosis | None:
    """Diagnose tapes that differentiated a multiple of the loss that the step returned."""
    taken = [one for one in run.of_variables if any(map(one.has, run.variables))]
    change = GradientChange.between(run.taken, run.gradients)
    if not taken or change is None or not change.nothing or not all(_is_multiple(run, one, factor) for one in taken):
        return None
    returned, first = float(run.loss), run.unscaled_loss(taken[0])
    evidence = f"{start}{meaning(factor, numbers)}; the tape differentiated "
    size = None if taken[0].target is None else taken[0].target.shape.num_elements()
    if size and size > 1:
        evidence += f"{size} numbers, which means their sum, {float(first):.10g}; the step returned {returned:.10g}"
    else:
        evidence += f"{float(first):.10g}, the step returned {returned:.10g} as its loss"
    remedy = REWARD if factor < 0 else MULTIPLE
    if factor >= LOSS_SCALE and is_close(log2(factor), round(log2(factor))) and not meaning(factor, numbers):
        evidence += "; a loss scale, by which the gradients were not divided"
        remedy = SCALED.format(scale=f"{factor:g}")
    return Diagnosis(Cause.COMPOSITION, evidence, remedy)


def _is_multiple(run: StepRun, taken: TapeGradient, factor: float) -> bool:
    returned, differentiated = float(run.loss), float(run.unscaled_loss(taken))
    return bool(returned) and is_close(differentiated / returned, factor)
