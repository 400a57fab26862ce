"""Functions of TensorFlow that are wrapped for a while and put back, whatever happens."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import wraps
from typing import Any

Wrapper = Callable[..., Any]
"""Takes the original function, then the arguments of a call."""


@contextmanager
def patched(*patches: tuple[Any, str, Wrapper]) -> Iterator[None]:
    """Let each `wrapper(original, *args, **kwargs)` answer the calls of `owner.name` inside the block."""
    with ExitStack() as stack:
        for owner, name, wrapper in patches:
            original = getattr(owner, name)
            inherited = isinstance(owner, type) and name not in vars(owner)
            stack.callback(delattr if inherited else _putter(original), owner, name)
            setattr(owner, name, _wrapped(original, wrapper))
        yield


def _putter(original: Any) -> Callable[[Any, str], None]:
    return lambda owner, name: setattr(owner, name, original)


def _wrapped(original: Callable[..., Any], wrapper: Wrapper) -> Callable[..., Any]:
    @wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        return wrapper(original, *args, **kwargs)

    return call
