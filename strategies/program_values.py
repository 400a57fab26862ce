"""The statements of a drawn program that make values: operations, constants, assignments, branches, functions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from hypothesis import reject

from gradcheck.programs.errors import RaisedError
from gradcheck.programs.model import Model, NoneTakenError
from gradcheck.programs.program import Apply, Assign, Branch, Call, Constant, Statement, Variable
from gradcheck.programs.tensor import Variable as ModelVariable

from .choices import Draw, index
from .program_operands import SHAPES, Operands, applied, literal, mapped

MOST_CALLS = 1
CALL_SHARE = 8
"""A function costs TensorFlow a trace, so that there are few."""


class ValueStatements:
    """A program while it is drawn; `over` once the model has raised, `rounds` inside of so many loops."""

    def __init__(self, draw: Draw, traced: bool) -> None:
        self.draw, self.traced = draw, traced
        self.model = Model(traced)
        self.operands = Operands(draw, self.model)
        self.over, self.calls, self.rounds = False, 0, 0

    def _flag(self, share: int) -> bool:
        """True in all cases but one of `share`."""
        return index(self.draw, share) > 0

    def _choice(self, options: Sequence[Any]) -> Any:
        return options[index(self.draw, len(options))]

    def _variable(self, number: int) -> Variable:
        variable = Variable(f"v{number}", literal(self.draw, self._choice(SHAPES)), index(self.draw, 5) < 4)
        self.model.declare(variable)
        self.operands.names.append(variable.name)
        return variable

    def _run(self, statement: Statement, name: str | None = None) -> Statement:
        """Runs a statement, which may bind `name`."""
        try:
            self.model.run(statement)
        except RaisedError:
            self.over = True
        except NoneTakenError:
            # A later round of a loop, in which a derivative is None that was none before.
            reject()
        else:
            self.operands.bound(name)
        return statement

    def _apply(self, depth: int) -> Statement:
        names = self.operands.recorded() if self._flag(4) else []
        names = names or self.operands.newest()
        first, operation, arguments, value = applied(self.draw, names, self.operands.value, self.traced)
        old = self.operands.value(first)
        # In a loop a name keeps its shape and dtype, so that the next round runs as well.
        fits = first.isidentifier() and (not self.rounds or (old.shape, old.dtype) == (value.shape, value.dtype))
        name = first if fits and not self._flag(10) else self.operands.fresh("t")
        return self._run(Apply(name, operation, arguments), name)

    def _constant(self, depth: int) -> Statement:
        name = self.operands.fresh("c")
        return self._run(Constant(name, literal(self.draw, self._choice(SHAPES))), name)

    def _assign(self, depth: int) -> Statement:
        names = [n for n in self.operands.newest() if isinstance(self.model.values[n], ModelVariable)]
        if not names:
            return self._apply(depth)
        variable = self._choice(names)
        shape = self.operands.value(variable).shape
        fitting = [n for n in self.operands.floating() if self.operands.value(n).shape == shape]
        value = self._choice([n for n in fitting if n != variable] + [variable])
        grown = np.abs(self.operands.value(variable) + self.operands.value(value))
        method = self._choice(("assign_add", "assign")) if np.all(grown < 30) else "assign"
        return self._run(Assign(variable, method, value))

    def _branch(self, depth: int) -> Statement:
        names = self.operands.floating()
        if not names:
            return self._apply(depth)
        condition, operand = (self._choice(names) for _ in range(2))
        shape = self.operands.value(operand).shape
        other = self._choice([n for n in names if self.operands.value(n).shape == shape])
        threshold = mapped(self._choice((0.3, -0.7, 1.1)), float(np.sum(self.operands.value(condition))))
        name = self.operands.fresh("t")
        then, otherwise = (
            (Apply(name, self._choice(("sin", "tanh", "identity", "neg", "stop_gradient")), (n,)),)
            for n in (operand, other)
        )
        return self._run(Branch(name, condition, threshold, then, otherwise), name)

    def _call(self, depth: int) -> Statement:
        names = self.operands.floating()
        captured = [n for n in names if isinstance(self.model.values[n], ModelVariable)]
        tensors = [n for n in names if n.isidentifier() and n not in captured]
        arguments = tuple(dict.fromkeys(self._choice(tensors) for _ in range(2) if tensors))
        values = {n: self.operands.value(n) for n in (*captured, *arguments)}
        if not values or self.rounds or self.calls >= MOST_CALLS or self._flag(CALL_SHARE):
            return self._apply(depth)
        self.calls += 1
        inner: list[Apply] = []
        while len(inner) < 3 and (not inner or self._flag(2)):
            _, operation, operands, value = applied(self.draw, list(reversed(values)), values.__getitem__, True, False)
            inner.append(Apply(self.operands.fresh("t"), operation, operands))
            values[inner[-1].name] = value
        results = tuple(statement.name for statement in inner)
        call = self._run(Call(self.operands.fresh("f"), results, arguments, tuple(inner)))
        for name in results:
            self.operands.bound(name)
        return call
