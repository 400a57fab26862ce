"""The ways in which TensorFlow takes a derivative, by name: a path, and a mode of execution.

Needs no TensorFlow, so that reports and known defects can be read without it; `execution` takes the derivatives.
"""

from __future__ import annotations

from dataclasses import dataclass

ALONE, VARIABLES = "reverse, one input at a time", "reverse, by variables"
PFOR, LOOP = "jacobian (pfor)", "jacobian (loop)"
FUNCTION, AROUND, XLA = "tf.function", "a tape around tf.function", "XLA"
DIMENSIONS, RANK = "tf.function of unknown dimensions", "tf.function of unknown rank"
NESTED, COND, WHILE = "a tf.function in a tf.function", "tf.cond in a tf.function", "tf.while_loop in a tf.function"
VECTORIZED = "a tape around tf.vectorized_map"
SINGLE, HALF, BRAIN = "in float32", "in float16", "in bfloat16"

NUMBER_TYPES = {SINGLE: "float32", HALF: "float16", BRAIN: "bfloat16"}
"""The number types of the executions in less than float64."""

ORDERS = {
    "reverse": (1, 2),
    "forward": (1,),
    "forward over reverse": (2,),
    "reverse over forward": (2,),
    "forward over forward": (2,),
    ALONE: (1, 2),
    VARIABLES: (1, 2),
    PFOR: (1, 2),
    LOOP: (1, 2),
}
"""The paths, with the orders of their derivatives."""

EXECUTIONS = ("eager", FUNCTION, AROUND, XLA, DIMENSIONS, RANK, NESTED, COND, WHILE, VECTORIZED, *NUMBER_TYPES)


@dataclass(frozen=True)
class Mode:
    """A path and a mode of execution; the plain one is reverse and eager.

    Raises ValueError for unknown names.

    >>> Mode("forward").orders
    (1,)
    """

    path: str = "reverse"
    mode: str = "eager"

    def __post_init__(self) -> None:
        if self.path not in ORDERS or self.mode not in EXECUTIONS:
            raise ValueError(
                f"path, mode were {self.path!r}, {self.mode!r}; expected one of {', '.join(ORDERS)}, and one of "
                f"{', '.join(EXECUTIONS)}"
            )

    def __str__(self) -> str:
        return f"{self.path}, {self.mode}"

    @property
    def orders(self) -> tuple[int, ...]:
        """The orders of derivatives of its path."""
        return ORDERS[self.path]

    @property
    def pushforward(self) -> bool:
        """Whether a ForwardAccumulator takes every derivative of its path."""
        return self.path in ("forward", "forward over forward")

    @property
    def number_type(self) -> str | None:
        """The real number type in which the function is computed, unless it is that of the inputs."""
        return NUMBER_TYPES.get(self.mode)


PLAIN = Mode()
MODES = (
    Mode("forward"),
    Mode("forward over reverse"),
    Mode("reverse over forward"),
    Mode(PFOR),
    Mode(LOOP),
    Mode("forward", FUNCTION),
    Mode("reverse", FUNCTION),
    Mode("reverse", AROUND),
    Mode("reverse", XLA),
    Mode("forward over forward", FUNCTION),
    Mode(ALONE),
    Mode(VARIABLES),
    Mode("reverse", DIMENSIONS),
    Mode("reverse", RANK),
    Mode("reverse", NESTED),
    Mode("reverse", COND),
    Mode("reverse", WHILE),
    Mode("reverse", VECTORIZED),
)
"""The modes that are compared with the plain one.

Eager forward over forward is left out: it is wrong, for the rest of the process, for any operation that has taken a
result twice (known as forward-over-forward-reuse-order2).
"""

EXPENSIVE = {PFOR, LOOP, XLA, VECTORIZED, "forward over forward"}
LIGHT = tuple(mode for mode in MODES if not EXPENSIVE & {mode.path, mode.mode})
"""The modes that take less than a tenth of a second for a small graph."""

NARROW = tuple(Mode("reverse", mode) for mode in NUMBER_TYPES)
"""The number types in less than float64. Their derivatives are compared with the estimates."""
