"""The ways in which TensorFlow takes a derivative, by name: along which path, and in which mode of execution.

Needs no TensorFlow, so that reports and known defects can be read without it; `execution` takes the derivatives.
"""

from __future__ import annotations

from dataclasses import dataclass

PFOR, LOOP = "jacobian (pfor)", "jacobian (loop)"
FUNCTION, AROUND, XLA = "tf.function", "a tape around tf.function", "XLA"

ORDERS = {
    "reverse": (1, 2),
    "forward": (1,),
    "forward over reverse": (2,),
    "reverse over forward": (2,),
    PFOR: (1, 2),
    LOOP: (1, 2),
}
"""The paths, and the orders of derivatives that each has."""

EXECUTIONS = ("eager", FUNCTION, AROUND, XLA)


@dataclass(frozen=True)
class Mode:
    """A path and a mode of execution; the plain one is reverse and eager.

    Raises ValueError for names that there are not.

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
        """The orders of derivatives that its path has."""
        return ORDERS[self.path]


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
)
"""The modes that are compared with the plain one."""
