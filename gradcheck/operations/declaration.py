"""`gradcheck.operation`: adds a user's own function, with its declared properties, to the operations of the hunt."""

from __future__ import annotations

import cmath
import inspect
import math
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from keyword import iskeyword
from typing import Any, TypeVar, overload

import numpy as np

from gradcheck.autodiff.mode import COND, LIGHT, MODES, NARROW, Mode
from gradcheck.documents import DocumentError
from gradcheck.graph import Shape
from gradcheck.operations.declared_types import DTYPES, DeclaredTypes, dtype_name
from gradcheck.operations.distances import at, at_each
from gradcheck.operations.domains import DOMAINS, Domain, interval_of
from gradcheck.operations.registry import FAMILY, Caller, OperationError, Registration, register
from gradcheck.operations.spec import (
    MOST_ELEMENTS,
    SHAPES,
    Choice,
    Distances,
    Interval,
    OpSpec,
    SpecialSet,
    attribute_literal,
)
from gradcheck.operations.special_sets import of_argument

F = TypeVar("F", bound=Callable[..., Any])
DeclaredPoints = complex | Sequence[complex] | Mapping[Any, complex | Sequence[complex]] | Distances | None
DeclaredShapes = Sequence[Any]
NAME = re.compile(r"(?!([xy]\d*|np|tf)$)[a-z][a-z0-9_]{0,59}")
"""Allowed names; those of a script's variables are reserved."""
FREE = (2, 1, 3)
"""The sizes that a free dimension takes."""
CLAIMS: Mapping[str, Mode] = {
    mode.path if mode.mode == "eager" else mode.mode if mode.path == "reverse" else str(mode): mode
    for mode in (*MODES, *NARROW)
}
"""The modes by their public names: "tf.function", "forward", "XLA", "forward, tf.function"."""
USUAL = tuple(mode for mode in LIGHT if mode.mode != COND)
"""The modes that are claimed by default: not tf.cond, which cannot differentiate twice what captures tensors in
tf.custom_gradient (known as cond-silu-order2)."""
OF_ANY_NUMBER = "of a function of *tensors, domain= has the names of all, as in {'x': 'reals', 'y': (0, 1)}"
SHAPES_EXPECTED = (
    "a list of shapes, such as [(3,), (2, 3)] or [(None, 3)], or, for several arguments, of one shape for each, "
    "such as [((2, 3), (3, 4))]"
)


@overload
def operation(function: F, /) -> F: ...


@overload
def operation(
    *,
    name: str | None = None,
    shapes: DeclaredShapes | None = None,
    domain: Domain | Mapping[Any, Domain] = "reals",
    kinks: DeclaredPoints = None,
    singular: DeclaredPoints = None,
    curvature_jumps: DeclaredPoints = None,
    special: Mapping[str, Callable[..., object]] | None = None,
    attributes: Mapping[str, Iterable[Any]] | None = None,
    orders: Sequence[int] = (1, 2),
    modes: Iterable[str] | None = None,
    dtype: Any = "float64",
    result: Any = None,
) -> Callable[[F], F]: ...


def operation(
    function: Any = None,
    /,
    *,
    name: str | None = None,
    shapes: DeclaredShapes | None = None,
    domain: Domain | Mapping[Any, Domain] = "reals",
    kinks: DeclaredPoints = None,
    singular: DeclaredPoints = None,
    curvature_jumps: DeclaredPoints = None,
    special: Mapping[str, Callable[..., object]] | None = None,
    attributes: Mapping[str, Iterable[Any]] | None = None,
    orders: Sequence[int] = (1, 2),
    modes: Iterable[str] | None = None,
    dtype: Any = "float64",
    result: Any = None,
) -> Any:
    """Registers a function as an operation, so that `pytest --gradcheck-ops=NAME` hunts with it beside TensorFlow's.

    The function (`tf.custom_gradient`, a fused layer, a custom operation, a Keras layer with fixed weights) takes
    tensors by position and returns one tensor; it is returned as it was, and nothing runs before a hunt does. Without
    `shapes` it is elementwise: arguments of one shape, whatever it is, give a result of that shape. `shapes` is a list
    of alternatives: shapes of its argument, or for several arguments a tuple of one shape each, as in [((None, 3),
    (3,))]; None is a free dimension, the same in all arguments.

    `domain` is where the elements of arguments lie, "reals", "positive", "nonnegative", "negative", "probabilities" or
    exclusive bounds `(low, high)` (None is no bound); or a dict of these by an argument's name or position. Of a
    function of `*tensors`, it is a dict of all arguments, which gives them names.
    `kinks` are the points at which it has no derivative, `singular` those at which that is infinite or the function
    jumps, `curvature_jumps` those without a second derivative: numbers for all arguments, or a dict of them by an
    argument's name or position, or a function of the arguments (NumPy arrays) that gives distances from them.
    `attributes` are keywords with the literals they take, the simplest first. `special` names sets of the arguments, to
    which the record of a finding that you accept may be limited, each with a function of them that says whether they
    lie in it, such as `{"equal elements": lambda x, y: np.any(x == y)}`.

    `dtype` is that of the arguments, or a dict by name or position, `result` that of the result, by default complex
    where an argument is: float64, complex128, or float32 and complex64 for what computes in nothing else: arguments are
    cast, and rounding is allowed for. Complex arguments lie anywhere in the plane; the domain bounds their real and
    imaginary parts. The gradient has to follow TensorFlow's convention, `upstream * tf.math.conj(slope)` of a
    holomorphic function.

    `orders` are the derivatives that it has, `modes` those besides eager tapes in which it claims them, such as
    "tf.function", "forward", "XLA" or "in float32" (a dozen, if None; `()` for none). Raises gradcheck.OperationError,
    which names what does not fit.

    >>> import tensorflow as tf
    >>> @operation(domain=(-3, 3), attributes={"scale": (1.0, 2.0)})
    ... def scaled_swish(x, scale):
    ...     return x * tf.sigmoid(scale * x)
    >>> float(scaled_swish(tf.constant(0.0), 2.0))
    0.0
    >>> @operation(dtype="complex64", result="float32")
    ... def squared_modulus(z):
    ...     return tf.math.real(z * tf.math.conj(z))
    """
    caller = Caller.of(sys._getframe(1))

    def put(function: Any) -> Any:
        called = _name_of(function) if name is None else name
        given = Declaration(function, called, attributes or {}, shapes, domain)
        choices, types = given.choices, given.types(dtype, result)
        spec = OpSpec(
            called,
            given.source(types),
            (),
            FAMILY,
            arity=given.arity,
            looped=shapes is not None,
            shapes=given.rule,
            starts=given.starts,
            attributes=lambda *_: choices,
            domains=given.domains(domain),
            kinks=given.distances("kinks", kinks, types),
            singular=given.distances("singular", singular, types),
            curvature_jumps=given.distances("curvature_jumps", curvature_jumps, types),
            special=given.special_sets({} if special is None else special),
            orders=given.orders(orders),
            dtypes=types.of_graphs,
            result=types.result_of_graphs,
            rtol=types.rtol,
            modes=given.modes(modes),
        )
        register(Registration(spec, function, caller, shapes is None))
        return function

    return put if function is None else put(function)


def _name_of(function: Any) -> str:
    return str(getattr(function, "__name__", None) or getattr(function, "name", None) or type(function).__name__)


@dataclass(frozen=True)
class Declaration:
    """The declaration of a function, read as the fields of an `OpSpec`; every refusal names the operation."""

    function: Any
    name: str
    attributes: Mapping[str, Iterable[Any]]
    shapes: DeclaredShapes | None
    domain: Any = "reals"

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not NAME.fullmatch(self.name) or iskeyword(self.name):
            raise self.refused("name", self.name, "a lower-case name such as 'fused_swish'; give one as name=")
        if not callable(self.function):
            raise self.refused("function", self.function, "something to call with tensors")
        if not isinstance(self.attributes, Mapping):
            raise self.refused(
                "attributes", self.attributes, 'a dict of literals by name, such as {"alpha": (0.5, 2.0)}'
            )
        if self.shapes is not None and not isinstance(self.shapes, Sequence):
            raise self.refused("shapes", self.shapes, SHAPES_EXPECTED)
        for name in self.attributes:
            if name not in self.parameters and not self._takes_anything:
                raise self.refused("attributes", dict(self.attributes), f"names of parameters; {name!r} is not one")

    def refused(self, what: str, given: Any, expected: str) -> OperationError:
        """The error for an argument that does not fit."""
        return OperationError(f"gradcheck.operation {self.name!r}: {what} was {given!r}; expected {expected}")

    @property
    def parameters(self) -> dict[str, inspect.Parameter]:
        """The parameters of the function, or of a layer's call."""
        called = self.function
        if _is_variadic(called) and hasattr(called, "call"):
            called = called.call
        try:
            return dict(inspect.signature(called).parameters)
        except (TypeError, ValueError):  # a C++ function may have no signature
            return dict(inspect.signature(lambda *tensors, **attributes: None).parameters)

    @property
    def _takes_anything(self) -> bool:
        return inspect.Parameter.VAR_KEYWORD in {one.kind for one in self.parameters.values()}

    @property
    def arguments(self) -> tuple[str, ...]:
        """The names of the parameters that take tensors: without a default, not an attribute.

        Those of a function of any number of tensors are the names in its domain.
        """
        positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        found = tuple(
            name
            for name, one in self.parameters.items()
            if one.kind in positional and one.default is one.empty and name not in self.attributes
        )
        named = isinstance(self.domain, Mapping) and all(isinstance(one, str) for one in self.domain)
        return tuple(self.domain) if not found and self._takes_any_number and named else found

    @property
    def _takes_any_number(self) -> bool:
        return inspect.Parameter.VAR_POSITIONAL in {one.kind for one in self.parameters.values()}

    @property
    def arity(self) -> int:
        """The number of tensors it takes, by its signature or else by its shapes."""
        if self.arguments:
            return len(self.arguments)
        if self._takes_any_number:
            entry = self.shapes[0] if self.shapes else ()
            return len(entry) if _is_entry_of_shapes(entry) else 1
        raise self.refused("function", self.function, "a parameter without a default, which takes the tensor")

    def types(self, dtype: Any, result: Any) -> DeclaredTypes:
        """The dtypes of the arguments and of the result."""
        arguments = []
        for what, given in self._by_argument("dtype", dtype, "float64"):
            if dtype_name(given) is None:
                raise self.refused(what, given, f"{DTYPES}, or a dict by argument, such as {{0: 'complex128'}}")
            arguments.append(str(dtype_name(given)))
        named = dtype_name(result)
        if result is not None and named is None:
            raise self.refused("result", result, f"{DTYPES}, or None for complex numbers where an argument has them")
        return DeclaredTypes(tuple(arguments), named)

    def source(self, types: DeclaredTypes) -> Callable[..., Any]:
        """The function as graphs call it: tensors by position, attributes as keywords."""

        def source(*tensors: Any, **attributes: Any) -> Any:
            return types.called(self.function, tensors, attributes)

        kinds = inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.KEYWORD_ONLY
        given = [inspect.Parameter(f"x{place}", kinds[0]) for place in range(self.arity)]
        source.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
            [*given, *(inspect.Parameter(name, kinds[1]) for name in sorted(self.attributes))]
        )
        source.__name__ = self.name
        return source

    @property
    def choices(self) -> dict[str, Choice]:
        """The values that may be drawn for each attribute."""
        found = {}
        for name, values in self.attributes.items():
            listed = () if isinstance(values, str) or not isinstance(values, Iterable) else tuple(values)
            try:
                found[name] = Choice(tuple(attribute_literal(one, name) for one in listed))
            except DocumentError:
                listed = ()
            if not listed:
                raise self.refused(f"attributes[{name!r}]", values, "a few literals, such as (0.5, 2.0) or ('same',)")
        return found

    @property
    def signatures(self) -> tuple[tuple[Shape, ...], ...] | None:
        """The shapes of all arguments, the simplest first; None for an elementwise function."""
        if self.shapes is None:
            return None
        self._refuse_one_shape_for_each()
        found = [each for entry in self.shapes for each in self._opened(entry)]
        if not found:
            raise self.refused("shapes", list(self.shapes), SHAPES_EXPECTED)
        for each in found:
            if any(math.prod(shape) > MOST_ELEMENTS for shape in each):
                raise self.refused("shapes", each, f"at most {MOST_ELEMENTS} elements, of which graphs are drawn")
        return tuple(dict.fromkeys(found))

    def _refuse_one_shape_for_each(self) -> None:
        """Refuse as many plain shapes as arguments: one for each may be meant, or each for all."""
        plain = [tuple(one) for one in self.shapes or () if _is_shape(one)]
        if len(plain) == len(self.shapes or ()) == self.arity and len(set(plain)) > 1:
            alternatives = [(one,) * self.arity for one in plain]
            expected = f"{[tuple(plain)]} for one shape each, or {alternatives} for alternatives of all"
            raise self.refused("shapes", plain, expected)

    def _opened(self, entry: Any) -> list[tuple[Shape, ...]]:
        several = _is_entry_of_shapes(entry)
        shapes = tuple(entry) if several else (entry,) * self.arity
        if len(shapes) != self.arity or not all(map(_is_shape, shapes)):
            raise self.refused("shapes", list(self.shapes or ()), f"{SHAPES_EXPECTED}; it takes {self.arity}")
        free = any(size is None for shape in shapes for size in shape)
        return [
            tuple(tuple(size if one is None else int(one) for one in shape) for shape in shapes)
            for size in (FREE if free else FREE[:1])
        ]

    def rule(self, shape: Shape) -> list[tuple[Shape, ...]]:
        """The shapes of all arguments, given that of the first."""
        listed = self.signatures
        if listed is None:
            return [(shape,) * self.arity]
        return [each for each in listed if each[0] == shape]

    @property
    def starts(self) -> tuple[Shape, ...]:
        """The shapes of a first argument."""
        listed = self.signatures
        return SHAPES if listed is None else tuple(dict.fromkeys(each[0] for each in listed))

    def domains(self, given: Any) -> tuple[Interval, ...]:
        """The domain of each argument."""
        return tuple(self._interval(one, what) for what, one in self._by_argument("domain", given, "reals"))

    def _by_argument(self, what: str, given: Any, default: Any) -> list[tuple[str, Any]]:
        """The value given for all arguments, or for each in a dict, with its name in an error."""
        if not isinstance(given, Mapping):
            return [(what, given)]
        names = self.arguments or tuple(map(str, range(self.arity)))
        for key in given:
            if key not in names and key not in range(self.arity):
                more = "" if self.arguments or not self._takes_any_number else f"; {OF_ANY_NUMBER}"
                raise self.refused(what, given, f"names of arguments ({', '.join(names)}); {key!r} is not one{more}")
        return [(f"{what}[{name!r}]", given.get(name, given.get(at, default))) for at, name in enumerate(names)]

    def _interval(self, given: Any, what: str) -> Interval:
        interval = None if isinstance(given, range) else interval_of(given)
        if interval is None or np.nextafter(interval.low, math.inf) >= interval.high:
            names = ", ".join(map(repr, DOMAINS))
            raise self.refused(
                what, given, f"one of {names}, or bounds with the lower first, as (0.0, 1.0) or (2, None)"
            )
        return interval

    def distances(self, what: str, given: Any, types: DeclaredTypes) -> Distances | None:
        """Distances of the arguments from declared points, as the catalogue calls them."""
        if given is None or (isinstance(given, (tuple, list, Mapping)) and not given):
            return None
        if not callable(given):
            listed = self._by_argument(what, given, ())
            points_of = [tuple(one) if isinstance(one, (tuple, list)) else (one,) for _, one in listed]
            numbers = (int, float, complex) if types.is_complex else (int, float)
            for (name, one), points in zip(listed, points_of, strict=True):
                if not all(isinstance(point, numbers) and cmath.isfinite(point) for point in points):
                    expected = (
                        "numbers, such as (0.0, 6.0), a dict of them by argument, or a function that gives distances"
                    )
                    raise self.refused(name, one, expected)
            if not any(points_of):
                return None
            return at(*points_of[0]) if self.arity == 1 else at_each(*(points_of * self.arity)[: self.arity])
        try:
            known = set(inspect.signature(given).parameters) & set(self.attributes)
        except (TypeError, ValueError):  # as of a ufunc of older NumPy: it takes arrays, and no attributes
            known = set()
        return lambda *values, **attributes: given(*values, **{name: attributes[name] for name in known})

    def special_sets(self, given: Any) -> tuple[SpecialSet, ...]:
        """The named sets of all its arguments."""
        expected = "a dict of functions of the arguments by name, such as {'negative': lambda x: np.any(x < 0)}"
        if not isinstance(given, Mapping):
            raise self.refused("special", given, expected)
        for name, holds in given.items():
            try:
                inspect.signature(holds).bind(*range(self.arity))
            except (TypeError, ValueError):
                raise self.refused(f"special[{name!r}]", holds, f"{expected}; it takes {self.arity}") from None
            if not (isinstance(name, str) and name) or of_argument(name) is not None:
                raise self.refused("special", dict(given), f"{expected}; {name!r} is no name, or that of another set")
        return tuple(SpecialSet(name, holds, tuple(range(self.arity))) for name, holds in given.items())

    def orders(self, given: Any) -> tuple[int, ...]:
        """The orders of derivatives that it has."""
        if not isinstance(given, (tuple, list)) or tuple(given) not in ((1,), (1, 2), (2,)):
            raise self.refused("orders", given, "(1, 2), or (1,) if there is no second derivative")
        return tuple(given)

    def modes(self, given: Any) -> tuple[Mode, ...]:
        """The modes that it claims."""
        if given is None:
            return USUAL
        names = tuple(given) if isinstance(given, Iterable) and not isinstance(given, str) else (given,)
        for name in names:
            if name not in CLAIMS:
                raise self.refused(
                    "modes", given, f"a list of {', '.join(map(repr, CLAIMS))}; {name!r} is not one of them"
                )
        return tuple(CLAIMS[name] for name in names)


def _is_variadic(function: Any) -> bool:
    try:
        kinds = {one.kind for one in inspect.signature(function).parameters.values()}
    except (TypeError, ValueError):
        return True
    return inspect.Parameter.VAR_POSITIONAL in kinds


def _is_shape(given: Any) -> bool:
    return isinstance(given, (tuple, list)) and all(
        one is None or (isinstance(one, int) and not isinstance(one, bool) and one >= 0) for one in given
    )


def _is_entry_of_shapes(entry: Any) -> bool:
    """Whether an entry has one shape for each argument."""
    return isinstance(entry, (tuple, list)) and len(entry) > 0 and all(isinstance(one, (tuple, list)) for one in entry)
