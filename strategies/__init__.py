"""Hypothesis strategies: inputs for your own tests, `tensors` and `arguments_of`, and `graphs.graphs` for the hunt's.

The names load on first use (PEP 562).
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .inputs import arguments_of, tensors

__all__ = ["arguments_of", "tensors"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}; it offers {', '.join(__all__)}")
    value = getattr(import_module(".inputs", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
