"""The exceptions that TensorFlow raises, as far as the model predicts them."""

from __future__ import annotations

from gradcheck.hunt.tapes.operations import NoGradientError


class RaisedError(Exception):
    """TensorFlow raises an exception of the type `kind` whose message contains `message`."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(f"{kind}: {message}")
        self.kind = kind
        self.message = message


def used(method: str) -> RaisedError:
    """The tape has given its one derivative, or has never been entered."""
    # batch_jacobian has a message of its own, "used tocompute".
    verb = "used tocompute" if method == "batch_jacobian" else "used to compute"
    return RaisedError("RuntimeError", f"A non-persistent GradientTape can only be {verb} one set of gradients")


def not_recording() -> RaisedError:
    """reset() or stop_recording() of a tape that does not record at the moment."""
    return RaisedError("ValueError", "Tape is not recording.")


def stopped_without_tape() -> RaisedError:
    """stop_recording() of a tape that has given its one derivative."""
    return RaisedError("RuntimeError", "Trying to stop recording a tape which is not recording.")


def watched_without_tape() -> RaisedError:
    """watch() of a tape that has given its one derivative."""
    return RaisedError("AttributeError", "'NoneType' object has no attribute '_tape'")


def entered_twice() -> RaisedError:
    """`with tape:` inside of itself."""
    return RaisedError("ValueError", "Tape is still recording")


def scalar_batch() -> RaisedError:
    """batch_jacobian of a scalar, whose batch dimension TensorFlow looks up before it looks at the rank."""
    return RaisedError("IndexError", "list index out of range")


def not_a_variable(method: str) -> RaisedError:
    """`assign` or `assign_add` of a tensor that took a variable's name."""
    return RaisedError("AttributeError", f"object has no attribute '{method}'")


def low_rank(shape: tuple[int, ...]) -> RaisedError:
    """batch_jacobian of a vector, or with respect to a vector or a scalar."""
    text = f"({shape[0]},)" if len(shape) == 1 else "()"
    return RaisedError("ValueError", f"Shape {text} must have rank at least 2")


def other_batch() -> RaisedError:
    """batch_jacobian of batches of different size."""
    return RaisedError("ValueError", "Need first dimension of target shape")


def unregistered(error: NoGradientError, method: str, traced: bool) -> RaisedError:
    """An operation without a registered gradient; an eager Jacobian traces it, which wraps the exception."""
    wrapped = method != "gradient" and not traced
    return RaisedError("StagingError" if wrapped else "LookupError", str(error))
