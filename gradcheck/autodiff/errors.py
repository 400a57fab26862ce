"""Classify the errors that TensorFlow raises, by type and text: one function per question."""

from __future__ import annotations

import re

MISSING_KERNEL = re.compile(r"(\w+) \(No registered '\w+' OpKernel for XLA")

UNSUPPORTED = re.compile(
    r"Detected unsupported operations when trying to compile graph|must be a compile-time constant"
    r"|XLA compilation requires a fixed tensor list size"
    r"|No pfor vectorization defined for|No converter defined for"
    r"|Output subscripts contain a label appearing more than once"
    r"|of a variable without handle data|Required handle data not set"
)
"""Messages about operations without an XLA kernel, loops without a static bound in XLA, operations that pfor cannot
vectorize (tape.jacobian documents a ValueError then), handles of variables that are created inside, and intermediates
of branches, which pfor stacks without their handle data."""

NO_GRADIENTS = "No gradients provided for any variable"
"""In the error of an optimizer of Keras that got None for each variable."""
NODES = re.compile(r"\{\{function_node [^}]*\}\} ?|\s*\[Op:\w+\]( name: ?\S*)?")
"""The parts of a message that name the node of a graph, or the operation, that failed."""


def summary(error: BaseException) -> str:
    """The type of an error and the first line of its message; for missing XLA kernels, only the operations.

    >>> summary(ValueError("no such shape\\nin line 3"))
    'ValueError: no such shape'
    """
    kernels = sorted(set(MISSING_KERNEL.findall(str(error))))
    first = str(error).strip().partition("\n")[0]
    return f"no XLA kernel for {', '.join(kernels)}" if kernels else f"{type(error).__name__}: {first}"


def without_places(error: BaseException) -> str:
    """The type and the first line of the message, without the names of nodes that TensorFlow puts into it.

    >>> without_places(ValueError("{{function_node __wrapped__MatMul_device}} Matrix size-incompatible"))
    'ValueError: Matrix size-incompatible'
    """
    return f"{type(error).__name__}: {NODES.sub('', str(error))}".splitlines()[0]


COLOUR = re.compile(r"\x1b\[[0-9;]*m")
"""The escape codes by which Keras marks the reason in its message for a terminal."""
FRAMES = re.compile(
    r"\s*(File \".*|Stack trace for .*|Graph execution error:|Detected at node .*|<stack traces unavailable>"
    r"|\[\[\{\{node .*|tf2xla conversion failed while .*|in user code:)$"
)
"""Lines of a message that say where in TensorFlow, or in a graph, it came about."""
LINES = 12
"""The number of lines of a message that are shown: the error of a Keras layer ends with the arguments that it got."""


def sentence_of(error: BaseException) -> str:
    """The part of a message that says what is wrong and what to do, on one line, without frames, nodes and colours.

    >>> sentence_of(ValueError("Set a bound.\\n\\nStack trace for op definition: \\n\\t [[{{node a}}]]"))
    'Set a bound.'
    >>> sentence_of(ValueError("Exception encountered when calling Net.call().\\n\\n\\x1b[1mno such shape\\x1b[0m"))
    'Exception encountered when calling Net.call(). no such shape'
    >>> sentence_of(ValueError("no such shape\\n\\nArguments received:\\n  x=2"))
    'no such shape; Arguments received: x=2'
    """
    text = NODES.sub("", COLOUR.sub("", str(error)))
    if "in user code:" in text:
        # Below each frame lies its line of code, and the reason follows them after the type of its error.
        text = re.sub(r"^( *)(File \".*)\n\1 +\S.*$", r"\1\2", text, flags=re.MULTILINE)
        text = re.sub(r"^ *[A-Z]\w+: ", "", text, flags=re.MULTILINE)
    text = "\n".join(line.rstrip() for line in text.splitlines() if not FRAMES.match(line)).strip()
    lines = re.sub(r"(?<=[^.:;\n])\n(\s*\n)+", ";\n", text).splitlines()
    return " ".join(" ".join(lines[:LINES]).split()) + " …" * (len(lines) > LINES)


def not_registered(error: BaseException | None) -> bool:
    """Whether no gradient is registered for an operation.

    An IndexError or a KeyError, also lookup errors, means that a gradient function fails.

    >>> not_registered(LookupError("No gradient defined")), not_registered(IndexError("list index out of range"))
    (True, False)
    """
    return type(error) is LookupError


def unregistered_operation(error: BaseException | None) -> str | None:
    """The operation that has no entry in TensorFlow's gradient registry, if that is what the error says.

    >>> unregistered_operation(LookupError("gradient registry has no entry for: RandomShuffle"))
    'RandomShuffle'
    """
    found = re.search(r"gradient registry has no entry for: (\w+)", str(error))
    return found and found[1]


def unavailable(error: BaseException | None) -> bool:
    """Whether TensorFlow documents that there is no such derivative; pfor wraps the errors of its converters.

    >>> unavailable(ValueError("No pfor vectorization defined for SparseMatMul")), unavailable(ValueError("no shape"))
    (True, False)
    """
    documented = not_registered(error) or isinstance(error, NotImplementedError)
    while error is not None and not documented:
        documented = UNSUPPORTED.search(str(error)) is not None
        error = error.__cause__ or error.__context__
    return documented


def not_vectorized(error: BaseException | None) -> bool:
    """Whether pfor could not vectorize a Jacobian, for which a ValueError is documented."""
    return "Encountered an exception while vectorizing the" in str(error)


def tape_used_up(error: BaseException | None) -> bool:
    """Whether a tape that is not persistent was asked for a second set of gradients."""
    return "non-persistent GradientTape" in str(error)


def numerics_checked(message: str) -> bool:
    """Whether the message is that of tf.debugging.check_numerics for NaN or infinity."""
    return "CheckNumerics" in message


def about_floating_types(error: BaseException) -> bool:
    """Whether the message names a floating or complex type, as for a mix of float32 and float64."""
    return re.search("double|float|complex", str(error)) is not None
