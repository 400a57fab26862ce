"""Errors as a user reads them: with the lines of the user's code, and none of gradcheck's between them."""
# ruff: noqa: B904 - a raise without `from` keeps what an error was raised from

from __future__ import annotations

from collections.abc import Callable, Sequence
from difflib import get_close_matches
from functools import wraps
from inspect import signature
from opcode import opmap
from types import FunctionType, TracebackType
from typing import ParamSpec, TypeVar

from gradcheck.tracing.user_code import OWN, file_owner

STEPS = "gradcheck chooses the steps of its differences, and bounds their error; leave it out"
ONE_WAY = "reverse mode is compared, as tape.gradient takes it, at first order or with order=2; leave it out"
LIKE_TYPES = "a gradient of another shape or dtype than its source is always a mismatch; leave it out"
NEVER_BATCHED = "each derivative is compared as TensorFlow takes it, not in batches; leave it out"
ELSEWHERE = {
    **dict.fromkeys(("eps", "delta", "h", "step_size"), STEPS),
    **dict.fromkeys(("modes", "mode", "check_forward_ad", "check_backward_ad"), ONE_WAY),
    **dict.fromkeys(("check_batched_grad", "check_batched_forward_grad"), NEVER_BATCHED),
    "check_grad_dtypes": LIKE_TYPES,
    "check_undefined_grad": "None counts as zero, and is a mismatch where the estimate is not; leave it out",
    "fast_mode": "many inputs are compared along random directions, as many as probes= says; leave it out",
    "masked": "gradients are compared as dense tensors; leave it out",
    "nondet_tol": "random numbers are drawn alike in all runs, and other differences are inconclusive; leave it out",
    "raise_exception": "check and explain return a Result and raise for no mismatch, assert_close and assert_step do",
    "tol": "by default every error that can be seen matters; to allow more, give rtol= or atol=",
}
"""Arguments of other checkers (torch.autograd.gradcheck, jax.test_util.check_grads), and what there is instead."""

P = ParamSpec("P")
T = TypeVar("T")


def told_plainly(function: Callable[P, T]) -> Callable[P, T]:
    """Let a function of the public API raise errors without the frames of gradcheck, except one for its own call.

    Python adds that one last; pytest leaves it out. An internal error keeps all of them. The TypeError for an argument
    that it does not take says what there is instead.
    """
    known = [one for one in signature(function).parameters if one != "self"]

    @wraps(function)
    def called(*arguments: P.args, **named: P.kwargs) -> T:
        __tracebackhide__ = True
        for name in named:
            if name not in known:
                raise TypeError(
                    f"{function.__name__}() got an unexpected keyword argument {name!r}: {_instead(name, known)}"
                )
        try:
            return function(*arguments, **named)
        except Exception as error:  # whatever it is: it is raised again
            if is_internal(error):
                raise
            raise without_own_frames(error)

    if isinstance(called, FunctionType):
        called.__code__ = called.__code__.replace(co_name=function.__name__)
    return called


def _instead(name: str, known: Sequence[str]) -> str:
    """The advice on an argument that a function does not take."""
    near = get_close_matches(name, known, 1)
    return ELSEWHERE.get(name) or (f"{near[0]}= was meant?" if near else f"it takes {', '.join(known)}")


def is_internal(error: BaseException) -> bool:
    """Whether gradcheck failed: neither a `raise` of its own nor the user's code, or what that called, raised this."""
    for depth, entry in enumerate(reversed(_entries(error))):
        code = entry.tb_frame.f_code
        if code.co_filename.startswith(OWN):
            deliberate = code.co_code[entry.tb_lasti] == opmap["RAISE_VARARGS"] and type(error) is not AssertionError
            return depth > 0 or not deliberate
        if file_owner(code.co_filename) == "user":
            return False
    return True


def without_own_frames(error: BaseException) -> BaseException:
    """Remove the frames of gradcheck from an error, and from those that it was raised from, or while handling.

    One that gradcheck was handling is no longer shown.
    """
    linked: BaseException | None = error
    while linked is not None:
        context = None if linked.__suppress_context__ else linked.__context__
        if context is not None and not any(_owner(one) == "user" for one in _entries(context)):
            linked.__suppress_context__, context = True, None
        shown = None
        for entry in reversed(_entries(linked)):
            if not entry.tb_frame.f_code.co_filename.startswith(OWN):
                shown = TracebackType(shown, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
        linked.__traceback__ = shown
        linked = linked.__cause__ or context
    return error


def _owner(entry: TracebackType) -> str:
    return file_owner(entry.tb_frame.f_code.co_filename)


def _entries(error: BaseException) -> list[TracebackType]:
    """The entries of an error's traceback, the innermost last."""
    found, entry = [], error.__traceback__
    while entry is not None:
        found.append(entry)
        entry = entry.tb_next
    return found
