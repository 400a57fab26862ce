"""The check of a training step: its gradients against finite differences of its loss, its update against them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import tensorflow as tf

from gradcheck.autodiff.coordinates import ROUNDOFF, from_coordinates
from gradcheck.autodiff.reverse import WrongShapeError, all_shaped
from gradcheck.autodiff.sources import parse_arguments, variable_of
from gradcheck.check import result_of
from gradcheck.diagnosis.calls import merged
from gradcheck.diagnosis.held_values import notes_on_samples
from gradcheck.diagnosis.internal_errors import cause_searched, internal_errors_told
from gradcheck.diagnosis.jumps import notes_on_jumps
from gradcheck.diagnosis.not_finite_value import value_origin
from gradcheck.diagnosis.unconnected import nothing_connected, unconnected_notes, variable_name
from gradcheck.diagnosis.wrong_gradient import LostPart
from gradcheck.numerics.difference import EXCLUSION, first_difference
from gradcheck.options import Options
from gradcheck.problem.opening import open_function
from gradcheck.progress import counted
from gradcheck.result import Cause, Diagnosis, Finding, Kind, OrderResult, Reason, Result, Verdict
from gradcheck.tracing.state import UNCHANGED, variables_restored
from gradcheck.training.common_factor import (
    NEAR,
    diagnosis_of_factor,
    diagnosis_of_passes,
    factor_of,
    is_close,
    meaning,
    with_factor,
    without_factor,
)
from gradcheck.training.gradient_changes import (
    GradientChange,
    alike,
    clipping_of_values,
    dense,
    norm_of_values,
    repeats_rows,
)
from gradcheck.training.runner import OF_THE_STEP, StepRunner
from gradcheck.training.step_run import StepRun
from gradcheck.training.update import UpdateCheck, VariableMove, check_manual_update, optimizer_findings, used_by
from gradcheck.typing import Array
from gradcheck.verdict.lines import sample_values
from gradcheck.verdict.summary import undecided

GradientPair = tuple[Sequence[Any], Sequence[Any]]
ASIDE = 2.0**-4
"""Relative and absolute displacement of weights, to see whether gradients are clipped there, too."""
MAX_ELEMENTS, MAX_ERROR = 64, 1e-3
"""Finite differences are tried for up to MAX_ELEMENTS elements, and used up to the relative error MAX_ERROR."""
REMEDY = "use the tape's gradient unchanged; to clip, use tf.clip_by_value, tf.clip_by_norm or tf.clip_by_global_norm"
RESET = (
    "set {name} to zeros after its sum was used; if the gradients of several steps are to add up, check one call that "
    "runs these passes and returns the sum of their losses"
)
SUM_FIRST = "clip tf.convert_to_tensor(gradient), which sums repeated rows first"
VALUES_CLIPPED = "the .values of its IndexedSlices were {how}, which counts repeated rows apart, before they are summed"
OTHER_LOSS = (
    "return the differentiated loss; for several losses with separate variables return one of them first, as in "
    "(generator_loss, discriminator_loss), or a dict of them"
)
NOT_ASKED = "ask the tape for it, or, if it is not to be trained, exclude it: variables=[...] lists those to check"

UNMULTIPLIED = "let the tape differentiate optimizer.scale_loss(loss)"
NOT_FINITE = "the loss of the step is {loss}, so that there is nothing to compare; {origin}"
UNSEEN = "look for NaN or infinity in the weights and in the batch"
OVERFLOW = (
    "the gradients of the loss times {scale} overflow, those of the loss do not: the optimizer skips this step and "
    "lowers its scale; run steps until the scale fits, or give the optimizer a smaller initial_scale="
)


@dataclass(frozen=True)
class StepCheck:
    """The check of one step for its variables, with the options of `check`."""

    runner: StepRunner
    variables: Sequence[Any]
    options: Options
    learning_rate: float | None = None

    def result(self) -> Result:
        """The verdict on the gradients and the update, with notes on internal errors in the search for a cause."""
        with internal_errors_told() as internal:
            result = self._result()
        order = result.orders[1]
        return replace(result, orders={1: replace(order, notes=(*order.notes, *internal))})

    def _result(self) -> Result:
        unconnected = self.runner.unconnected
        names = tuple(variable_name(one) or "a variable" for one in unconnected)
        about = unconnected_notes(self.runner.recorded, list(zip(names, unconnected, strict=True)), "the loss")
        if not self.variables:
            return Result({1: nothing_connected(OrderResult(1, Verdict.AGREE, notes=tuple(about)))}, unconnected=names)
        order, (wrong_updates, notes) = self._check_all_gradients(), self._check_update()
        if not set(map(id, self.variables)).difference(id(variable_of(one)) for one in unconnected):
            order = nothing_connected(order)
        held = self.runner.held()
        if self.runner.random and not order.findings:
            about += notes_on_samples(self.runner.recorded(restore_python=True))
        intended = [self.runner.intended.note] if self.runner.intended else []
        notes = [*intended, *order.notes, *about, *notes, *([] if held == UNCHANGED else [held.note])]
        findings = (*order.findings, *wrong_updates)
        verdict = Verdict.MISMATCH if findings else order.verdict
        return Result({1: replace(order, verdict=verdict, findings=findings, notes=tuple(notes))}, unconnected=names)

    @cached_property
    def _run(self) -> StepRun:
        return self.runner.run()

    @cached_property
    def _names(self) -> list[str]:
        return [source.name for source in parse_arguments((), self.variables).sources]

    def _compare(self, gradient: Callable[[StepRun], Sequence[Any]] | None) -> OrderResult:
        """Compare the gradient of a run, or TensorFlow's own, with differences of the loss."""
        given = None if gradient is None else lambda: list(gradient(self.runner.run()))
        return self._differences(self.runner.loss, given)

    def _differences(
        self, loss: Callable[[], Any], gradient: Callable[[], Any] | None, unit: float = 1.0
    ) -> OrderResult:
        """Compare a gradient with differences of its loss; the absolute tolerance is in units of `unit`."""
        options = replace(self.options, asked=self.options.asked.scaled(unit))
        # A variable that the loss does not use may have a gradient.
        return result_of(loss, (), options, self.variables, gradient, unused=True).orders[1]

    def _check_all_gradients(self) -> OrderResult:
        """The verdict on the gradients, each compared with its own loss if the step has several."""
        run, orders = self._run, list[OrderResult]()
        separate: dict[int | None, tuple[int, ...]] = dict(run.own_losses.items())
        if not separate:
            return self._compare_gradients()
        owned = [place for places in separate.values() for place in places]
        if rest := tuple(place for place in range(len(self.variables)) if place not in owned):
            separate[None] = rest
        for own, places in separate.items():
            variables, runner = [self.variables[place] for place in places], self.runner.for_loss(run, own, places)
            part = StepCheck(runner, variables, self.options)
            names = dict(zip(part._names, (self._names[place] for place in places), strict=True))
            part = replace(part, options=replace(self.options, asked=self.options.asked.under_other_names(names)))
            order = part._compare_gradients()
            orders.append(replace(order, findings=tuple(_renamed(finding, names) for finding in order.findings)))
        order = merged(orders, ()).orders[1]
        largest = np.array([one.resolution for one in orders]) / [one.relative_resolution for one in orders]
        relative = float(order.resolution / np.fmax.reduce(largest))
        were = "variable was" if len(owned) == 1 else "variables were"
        notes = [*order.notes, f"{len(owned)} {were} compared with the loss of their own tape"]
        if held := sum(len(places) for own, places in run.own_losses.items() if run.of_variables[own].updates):
            notes.append(f"{held} of them with earlier updates held fixed")
        return replace(order, relative_resolution=relative, notes=tuple(notes))

    def _compare_gradients(self) -> OrderResult:
        """The verdict on the gradients, with a note on variables that are never trained."""
        order = self._check_gradients()
        return replace(order, notes=(*order.notes, *self._never_trained(order.findings)))

    def _never_trained(self, findings: Sequence[Finding]) -> list[str]:
        """A note on variables with which the loss changes in jumps alone, among those that the step asks a tape for."""
        runner, run, wrong = self.runner, self._run, tuple(one.input for one in findings)
        flat = [
            place
            for place, variable in enumerate(runner.variables)
            if variable.trainable and run.before[place].size and id(variable) in run.asked
            if not self._names[place].startswith(wrong)
            if all(map(_nothing, (run.gradients[place], *run.from_tapes(variable))))
        ]
        if not flat:
            return []
        variables = [runner.variables[place] for place in flat]
        nowhere = np.array(np.nan)

        def look(moved: Mapping[int, Array]) -> tuple[Array, Set[int]]:
            counted(1)
            with variables_restored(variables):
                for number, value in moved.items():
                    variables[number].assign(tf.cast(value, variables[number].dtype))
                try:
                    there = runner.run()
                    loss = there.loss if there.own is None else runner.connected_loss()
                except OF_THE_STEP:
                    return nowhere, frozenset()
            return np.array(float(loss)), {n for n in moved if not _nothing(there.gradients[flat[n]])}

        names = [variable_name(self.variables[place]) or "a variable" for place in flat]
        found = [(name, variable, variable.numpy()) for name, variable in zip(names, variables, strict=True)]
        return notes_on_jumps(runner.recorded, found, look, ROUNDOFF[run.loss.dtype.name], "the loss")

    def _check_gradients(self) -> OrderResult:
        """The verdict on the gradients as used, or before they were clipped or averaged."""
        if not np.isfinite(loss := float(self._run.loss)):
            raise ValueError(NOT_FINITE.format(loss=loss, origin=value_origin(self.runner.recorded) or UNSEEN))
        if self._overflows():
            note = OVERFLOW.format(scale=f"{self._run.scale:g}")
            count = sum(value.size for value in self._run.before)
            return replace(undecided(1, Reason.NOT_FINITE, note), inconclusive=count)
        change = self._change(lambda run: (run.taken, run.gradients))
        if change is not None:
            return _with_change(self._compare(lambda run: run.taken), change)
        if self._run.clip_functions and (order := self._check_unchanged()) is not None:
            return order
        order = self._compare(lambda run: run.gradients)
        if order.verdict != Verdict.MISMATCH:
            return order
        if (unchanged := self._check_unchanged()) is not None:
            return unchanged
        return replace(order, findings=self._with_causes(order.findings))

    def _with_causes(self, findings: tuple[Finding, ...]) -> tuple[Finding, ...]:
        """The findings with their causes: a factor that all gradients have in common, or one for each of them."""
        numbers, run, factor = self._numbers(), self._run, None
        with cause_searched():
            factor = factor_of(findings) if run.scale == 1.0 else None
            known = None if factor is None else diagnosis_of_factor(run, factor, numbers)
            if factor is not None and known is not None and self._is_common(factor, findings):
                return tuple(replace(finding, diagnosis=known) for finding in findings)
            passes = [self._diagnosis_of_passes(finding) for finding in findings]
            if passes and all(passes):
                return tuple(map(_diagnosed, findings, passes))
        found = tuple(map(self._searched, findings))
        with cause_searched():
            arrays = [array for gradient in run.gradients if (array := dense(gradient)) is not None]
            several = sum(map(np.count_nonzero, arrays)) > 1
            if factor is None or not (several or meaning(factor, numbers)) or not all(map(without_factor, found)):
                return found
            if self._is_common(factor, findings):
                return tuple(with_factor(finding, factor, numbers) for finding in found)
        return found

    def _diagnosis_of_passes(self, finding: Finding) -> Diagnosis | None:
        """Diagnose gradients of several tapes, one of which needed what another recorded."""
        (right, error), position = self._right, self._position(finding)
        several = len(self._run.of_variables) > 1 and self._run.scale == 1.0
        if not several or right is None or error or position is None or (array := dense(right[position])) is None:
            return None
        return diagnosis_of_passes(self._run, finding, float(array[finding.index or ()].real))

    def _position(self, finding: Finding) -> int | None:
        """The place of the variable that a finding is about."""
        return next((i for i, name in enumerate(self._names) if finding.input.startswith(name)), None)

    def _is_common(self, factor: float, findings: Sequence[Finding]) -> bool:
        """Whether all gradients are this number times the right ones.

        These are those of the loss, if they fit the findings; otherwise the quotients are compared with differences.
        """
        run, (right, error) = self._run, self._right
        change = None if right is None else GradientChange.between(right, run.gradients, error)
        if change is not None and (found := change.factor) is not None and is_close(found, factor):
            return True
        quotients = self._compare(lambda run: [_divided(gradient, factor) for gradient in run.gradients])
        return quotients.verdict == Verdict.AGREE

    def _overflows(self) -> bool:
        """Whether the optimizer skips a step whose gradients are infinite, or NaN, only because its loss was scaled."""
        run = self._run
        if run.scale == 1.0 or _finite(run.gradients) or not all(map(np.array_equal, run.before, run.after)):
            return False
        right, _ = self._right
        return right is not None and _finite(right)

    def _check_unchanged(self) -> OrderResult | None:
        """The verdict on the gradients before they were clipped or averaged; None where they were not."""
        right, error = self._right
        if right is None or (change := self._change(self._against_right, error)) is None:
            return None
        if error:  # they come from finite differences, and are correct
            count = sum(gradient.size for gradient in right)
            before = OrderResult(order=1, verdict=Verdict.AGREE, resolution=EXCLUSION * error, compared=count)
        else:
            before = self._compare(None)
        return None if before.verdict == Verdict.MISMATCH else _with_change(before, change)

    def _check_update(self) -> UpdateCheck:
        run, calls = self._run, self._run.optimizer_calls
        moves = self._moves(run)
        if not calls:
            gradients = [dense(gradient) for gradient in run.gradients]
            return check_manual_update(moves, gradients, self.learning_rate, run.clip_functions, self._clipped_by_hand)
        if self.learning_rate is not None:
            raise ValueError("learning_rate= is for steps that move the variables by hand; this one uses an optimizer")
        name = " and ".join(dict.fromkeys(call.name for call in calls))
        findings = optimizer_findings(moves, self.runner.apply_again(calls), name)
        notes = [note for call in calls for note in call.own_changes()]
        if run.returned_gradients is not None and run.optimizer_gradients is not None:
            change = self._change(lambda run: (run.returned_gradients or (), run.optimizer_gradients or ()))
            notes = notes if change is None else [change, *notes]
        return findings, [f"{Cause.CHANGED_AFTERWARDS}: {note}" for note in notes]

    def _moves(self, run: StepRun) -> list[VariableMove]:
        return [VariableMove(*parts) for parts in zip(self._names, run.before, run.after, strict=True)]

    def _change(self, pair: Callable[[StepRun], GradientPair], error: float = 0.0) -> str | None:
        """Describe how gradients were clipped or averaged, if they were; `pair` returns a run's taken and used ones."""
        change = GradientChange.between(*pair(self._run), error)
        if change is None or change.nothing:
            return None
        whole = GradientChange.between(self._run.taken, self._run.gradients)
        clipped = None
        if whole is None or not whole.nothing:  # a tape's gradient that was used unchanged was not clipped
            clipped = self._clipping(change, lambda run: GradientChange.between(*pair(run), error))
        return clipped or change.averaging(self._counts())

    def _clipping(self, change: GradientChange, again: Callable[[StepRun], GradientChange | None]) -> str | None:
        """Describe how gradients were clipped, if they were; `again` returns the same change in another run."""
        run, counts = self._run, [1, *self._counts()]
        known = run.clip_limits
        # Gradients may be averaged before they are clipped, or clipped before the optimizer divides them by its scale.
        averaged = [(name, limit) for name, limit in known if name == "clip_by_global_norm" and limit]
        limits = [*known, *((name, (limit[0] / count,)) for name, limit in averaged for count in counts if count > 1)]
        if run.scale != 1.0:
            limits += [(name, limit and tuple(one / run.scale for one in limit)) for name, limit in known]
        found = change.clipping(run.clip_functions, limits)
        if found is None or (found.by_a_norm and self._only_scaled(change, again)):
            return None
        return found.note + self._norm_of_values(found.note)

    def _norm_of_values(self, note: str) -> str:
        """The norm to which gradients were clipped where repeated rows count apart, as an addition to a note."""
        used = [gradient for gradient in self._run.gradients if gradient is not None]
        if not any(map(repeats_rows, used)) or not ("global norm" in note or (" norm " in note and len(used) == 1)):
            return ""
        return f"; {norm_of_values(used):.6g} for their IndexedSlices, whose repeated rows count apart"

    def _only_scaled(self, change: GradientChange, again: Callable[[StepRun], GradientChange | None]) -> bool:
        """Whether at other weights the gradients are multiplied by the same number."""
        variables = self.runner.variables
        with variables_restored(variables):
            for variable in variables:
                variable.assign(variable.numpy() * (1 + ASIDE) + ASIDE)
            try:
                run = self.runner.run()
            except OF_THE_STEP:
                return False
            beside = again(run)
        return beside is not None and change.same_factors(beside)

    def _clipped_by_hand(self, change: GradientChange) -> str | None:
        """Describe how gradients were clipped between the returned ones and the moves, at the `learning_rate`."""
        assert self.learning_rate is not None
        rate = self.learning_rate

        def again(run: StepRun) -> GradientChange | None:
            return used_by(self._moves(run), [dense(gradient) for gradient in run.gradients], rate)

        return self._clipping(change, again)

    def _against_right(self, run: StepRun) -> GradientPair:
        right, _ = self._right if run is self._run else self._right_gradients()
        return right or (), run.gradients

    @cached_property
    def _right(self) -> tuple[Sequence[Any] | None, float]:
        return self._right_gradients()

    def _right_gradients(self) -> tuple[Sequence[Any] | None, float]:
        """The gradients of the step's loss, and their error: from TensorFlow, or else from finite differences."""
        variables = self.runner.variables
        try:
            with tf.GradientTape(watch_accessed_variables=False) as tape:
                tape.watch(variables)
                loss = self.runner.connected_loss()
            gradients = tape.gradient(loss, variables)
        except Exception:  # whatever the step's operations and their gradient functions raise: then there is none
            gradients = []
        with suppress(WrongShapeError):
            if any(gradient is not None for gradient in gradients):
                return all_shaped(gradients, variables), 0.0
        function = open_function(self.runner.loss, (), variables)
        if function.point.size > MAX_ELEMENTS:
            return None, 0.0
        with variables_restored(variables):
            estimate = first_difference(sample_values(function, np.eye(function.point.size)))
        if not estimate.bound.max() <= MAX_ERROR * np.abs(estimate.value).max():
            return None, 0.0
        pairs = zip(function.parts, function.sources, strict=True)
        values = (from_coordinates(estimate.value[part, 0], one.shape, one.value.dtype) for part, one in pairs)
        return list(values), float(estimate.bound.max())

    def _searched(self, finding: Finding) -> Finding:
        with cause_searched():
            return self._explained(finding)
        return finding

    def _explained(self, finding: Finding) -> Finding:
        """Diagnose a change by the step to a gradient that was correct when its tape took it."""
        run, (right, error) = self._run, self._right
        position = self._position(finding)
        if position is None or right is None:
            return self._as_taken(finding) if run.scale != 1.0 else finding
        missing, numbers = finding.kind is Kind.MISSING, finding.reason.split("; ")[0]
        if missing and run.tape_gradients and not run.from_tapes(run.variables[position]):
            diagnosis = Diagnosis(Cause.COMPOSITION, "the step never asks its tape for this gradient", NOT_ASKED)
            return replace(finding, reason=numbers, diagnosis=diagnosis)
        taken = dense(run.taken[position])
        change = GradientChange.between([right[position]], [taken], error)
        if taken is None or change is None or not change.nothing:
            finding = finding if taken is None else self._as_taken(finding)
            if taken is not None and (unmultiplied := self._unmultiplied([right[position]], [taken], error)):
                return replace(finding, diagnosis=unmultiplied)
            lost = LostPart(None if missing else finding.autodiff, finding.difference)
            known = finding.diagnosis or self.runner.broken_path(position, run, lost)
            return replace(finding, diagnosis=self._of_another_loss(position, known))
        whole = GradientChange.between(run.taken, run.gradients, error)
        if whole is not None and whole.nothing:
            return self._as_taken(finding)  # the tape's gradient was used unchanged
        used = "None" if finding.autodiff is None else f"{finding.autodiff:.10g}"
        giver = "the optimizer got" if run.returned_gradients is None else "the step returns"
        evidence = f"the step's tape gave {float(taken[finding.index or ()].real):.10g}, {giver} {used}"
        slices = run.taken[position], run.gradients[position]
        if how := clipping_of_values(*slices, run.clip_functions, run.clip_limits):
            evidence += f": {VALUES_CLIPPED.format(how=how)}"
            diagnosis = Diagnosis(Cause.CHANGED_AFTERWARDS, evidence, SUM_FIRST)
            return replace(finding, kind=Kind.WRONG_VALUE, reason=numbers, diagnosis=diagnosis)
        if (gradient := dense(run.gradients[position])) is not None and (
            kept := self.runner.accumulator(taken, gradient)
        ):
            name, value = kept
            evidence += f"; {name} held {float(value[finding.index or ()]):.10g} before the step, which added to it"
            diagnosis = Diagnosis(Cause.CHANGED_AFTERWARDS, evidence, RESET.format(name=name))
            return replace(finding, kind=Kind.WRONG_VALUE, reason=numbers, diagnosis=diagnosis)
        change = GradientChange.between(right, run.gradients, error)
        if change is not None and (factor := change.factor):
            evidence += f"; all gradients were multiplied by {factor:.6g}{self._origin_of_factor(factor)}"
        diagnosis = Diagnosis(Cause.CHANGED_AFTERWARDS, evidence, REMEDY)
        return replace(finding, kind=Kind.MISSING if missing else Kind.WRONG_VALUE, reason=numbers, diagnosis=diagnosis)

    def _as_taken(self, finding: Finding) -> Finding:
        """Replace the diagnosis of a change by the cause of the error, if the gradient was already wrong before."""
        if finding.diagnosis is None or finding.diagnosis.cause is not Cause.CHANGED_AFTERWARDS:
            return finding
        before = next((one for one in self._of_tapes.findings if one.input == finding.input), None)
        scale = self._run.scale
        if scale == 1.0:
            return finding if before is None else replace(finding, kind=before.kind, diagnosis=before.diagnosis)
        if before is None or before.diagnosis is None:  # the change may be our own division by the scale
            return replace(finding, diagnosis=None)
        found = before.diagnosis
        evidence = f"{found.evidence}; these numbers are for the loss times {scale:g}, which the tape differentiated"
        lost = None if found.lost is None else found.lost / scale
        return replace(finding, kind=before.kind, diagnosis=replace(found, evidence=evidence, lost=lost))

    @cached_property
    def _of_tapes(self) -> OrderResult:
        """The comparison of the tapes' gradients with differences of the loss that they differentiated."""
        scale = self._run.scale
        return self._differences(
            lambda: _scaled(self.runner.loss(), scale), lambda: list(self.runner.run().scaled), scale
        )

    def _unmultiplied(self, right: Sequence[Any], taken: Sequence[Any], error: float) -> Diagnosis | None:
        """Diagnose an optimizer that divides gradients by its scale, if their loss was not multiplied by it."""
        scale = self._run.scale
        change = GradientChange.between(right, [scale * one for one in taken], error)
        if scale == 1.0 or change is None or not change.nothing:
            return None
        name = next((call.name for call in self._run.optimizer_calls if call.scale == scale), "the optimizer")
        evidence = (
            f"{name} divides gradients by {scale:g}, but the tape differentiated a loss that was not multiplied by it"
        )
        return Diagnosis(Cause.CHANGED_AFTERWARDS, evidence, UNMULTIPLIED)

    def _of_another_loss(self, position: int, diagnosis: Diagnosis | None) -> Diagnosis | None:
        """Return the diagnosis, or, without an operation to blame, that the tape differentiated another loss."""
        run, variable = self._run, self._run.variables[position]
        taken = [one for one in run.tape_gradients if one.has(variable)]
        if len(taken) != 1 or (diagnosis is not None and diagnosis.cause is not Cause.COMPOSITION):
            return diagnosis
        loss = run.unscaled_loss(taken[0])
        if alike([loss], [run.loss]):
            return diagnosis
        evidence = (
            f"the tape of this gradient differentiated another loss, {float(loss):.10g}, than the one that the step "
            f"returned, {float(run.loss):.10g}"
        )
        return Diagnosis(Cause.COMPOSITION, evidence, OTHER_LOSS)

    def _origin_of_factor(self, factor: float) -> str:
        rates = [call.learning_rate for call in self._run.optimizer_calls]
        if any(rate is not None and abs(abs(factor) - rate) <= NEAR * rate for rate in rates):
            return ", the learning rate, which the optimizer applies, too"
        return meaning(factor, self._numbers())

    def _numbers(self) -> dict[int, str]:
        """The counts to average over, and those of the inputs' elements, with their descriptions."""
        sizes = [
            (math.prod(shape), position, " times ".join(map(str, shape)))
            for position, value in enumerate(self.runner.inputs)
            for leaf in tf.nest.flatten(value)
            if len(shape := tuple(getattr(leaf, "shape", ()))) > 1
        ]
        elements = {size: f"the {shape} elements of inputs[{position}]" for size, position, shape in sizes}
        return {**elements, **self._counts()}

    def _counts(self) -> dict[int, str]:
        """The counts of samples and gradients to average over, with their descriptions."""
        counts: dict[int, str] = {}
        for position, value in enumerate(self.runner.inputs):
            for leaf in tf.nest.flatten(value):
                shape = tuple(getattr(leaf, "shape", ()))
                if shape:
                    counts.setdefault(int(shape[0]), f"the {shape[0]} samples of inputs[{position}]")
        given = self._run.tape_gradients
        calls = max((sum(one.has(variable) for one in given) for variable in self._run.variables), default=0)
        return {calls: f"{calls} gradients", **counts}


def _nothing(gradient: Any) -> bool:
    """Whether a gradient is None or zero."""
    return gradient is None or not np.any(dense(gradient))


def _finite(gradients: Sequence[Any]) -> bool:
    arrays = map(dense, gradients)
    return all(bool(np.all(np.isfinite(array))) for array in arrays if array is not None)


def _scaled(loss: Any, scale: float) -> Any:
    """A loss times the scale, in a dtype that holds it."""
    return loss if scale == 1.0 else scale * (tf.cast(loss, tf.float32) if loss.dtype.size < 4 else loss)


def _divided(gradient: Any, factor: float) -> Array | None:
    array = dense(gradient)
    return None if array is None else array / array.dtype.type(factor)


def _diagnosed(finding: Finding, diagnosis: Diagnosis | None) -> Finding:
    return replace(finding, diagnosis=diagnosis)


def _with_change(order: OrderResult, change: str) -> OrderResult:
    return replace(order, notes=(*order.notes, f"{Cause.CHANGED_AFTERWARDS}: {change}"))


def _renamed(finding: Finding, names: dict[str, str]) -> Finding:
    """Return a finding about some of the variables with the name that its variable has among all."""
    before = next((name for name in names if finding.input.startswith(name)), None)
    if before is None:
        return finding
    after = names[before]
    diagnosis = finding.diagnosis
    if diagnosis is not None:
        diagnosis = replace(diagnosis, evidence=diagnosis.evidence.replace(before, after))
    return replace(finding, input=after + finding.input.removeprefix(before), diagnosis=diagnosis)
