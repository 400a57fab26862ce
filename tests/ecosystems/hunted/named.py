"""Names for the arguments of a function that takes any number of tensors."""

import inspect


def named(function, names):
    """Returns the function with parameters of these names, by which domains and kinks are declared."""
    kind = inspect.Parameter.POSITIONAL_ONLY
    function.__signature__ = inspect.Signature([inspect.Parameter(name, kind) for name in names])
    return function
