"""The dtypes that a user's own function computes in, and those of the graphs around it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from gradcheck.autodiff.coordinates import WIDE, is_complex
from gradcheck.operations.language import tf

SINGLE = 1e-6
"""The relative rounding of a function in float32 or complex64."""
NAMES = ("float64", "float32", "complex128", "complex64")
DTYPES = "'float64', 'complex128', or 'float32' and 'complex64' for functions that support no other dtype"


def given_dtype(given: Any) -> str | None:
    """The name of a dtype that was given as a string, which is not checked, or as a dtype of NumPy or TensorFlow.

    None for anything else, and for Python's types: float is float32 to TensorFlow, and float64 to NumPy.

    >>> given_dtype("any name"), given_dtype(tf.float32), given_dtype(float)
    ('any name', 'float32', None)
    """
    if isinstance(given, str):
        return given
    # By identity: tf.float32 and np.dtype("float64") are both equal to float.
    if not any(given is ambiguous for ambiguous in (None, float, int, complex)):
        with suppress(TypeError):
            return str(tf.as_dtype(given).name)
    return None


def dtype_name(given: Any) -> str | None:
    """The name of a dtype that an operation may have, given by name or as one of NumPy or TensorFlow; else None.

    >>> dtype_name("complex64"), dtype_name(tf.float32), dtype_name(tf.int32)
    ('complex64', 'float32', None)
    """
    name = given_dtype(given)
    return name if name in NAMES else None


@dataclass(frozen=True)
class DeclaredTypes:
    """The dtypes of a function's arguments, one for each or one for all, and of its result (None: complex if they are).

    Graphs are of float64 and complex128: narrower arguments and results are cast.
    """

    arguments: tuple[str, ...]
    result: str | None = None

    @property
    def is_complex(self) -> bool:
        """Whether the first argument is complex."""
        return is_complex(self.arguments[0])

    @property
    def of_graphs(self) -> tuple[str, ...]:
        """The dtypes that the arguments have in graphs."""
        return tuple(WIDE.get(dtype, dtype) for dtype in self.arguments)

    @property
    def result_of_graphs(self) -> str:
        """The dtype that the result has in graphs."""
        if self.result is not None:
            return WIDE.get(self.result, self.result)
        return "complex128" if "complex128" in self.of_graphs else "float64"

    @property
    def rtol(self) -> float:
        """The relative rounding error that is allowed for."""
        return SINGLE if WIDE.keys() & {*self.arguments, self.result} else 0.0

    def called(self, function: Callable[..., Any], tensors: Sequence[Any], attributes: Mapping[str, Any]) -> Any:
        """The function's result for tensors of a graph; one that is not of the declared kind stays as it is."""
        if not self.rtol:
            return function(*tensors, **attributes)
        dtypes = self.arguments if len(self.arguments) > 1 else self.arguments * len(tensors)
        value = function(*(tf.cast(one, to) for one, to in zip(tensors, dtypes, strict=True)), **attributes)
        alike = tf.is_tensor(value) and value.dtype.is_complex == is_complex(self.result_of_graphs)
        return tf.cast(value, self.result_of_graphs) if alike else value
