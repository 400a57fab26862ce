"""Settings of a process: quiet TensorFlow without oneDNN's reorderings, one thread per worker; Hypothesis's search."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from functools import cache
from pathlib import Path

# The threads of NumPy's OpenBLAS wait for one another without sleeping: where each worker has some for every core, a
# product of long vectors takes a hundred times as long.
DEFAULTS = {"TF_CPP_MIN_LOG_LEVEL": "2", "TF_ENABLE_ONEDNN_OPTS": "0", "OPENBLAS_NUM_THREADS": "1"}
_known: list[Path] = []


def set_environment() -> None:
    """Sets TF_CPP_MIN_LOG_LEVEL=2, TF_ENABLE_ONEDNN_OPTS=0 and OPENBLAS_NUM_THREADS=1 unless they are set.

    It has to be called before NumPy and TensorFlow load.
    """
    for name, value in DEFAULTS.items():
        os.environ.setdefault(name, value)


def set_known(folder: Path) -> None:
    """Sets the folder of known defects for this process, such as one below pytest's root folder."""
    _known[:] = [folder]


def known() -> Path | None:
    """Returns the folder of known defects: the one that GRADCHECK_KNOWN names, else the one that was set, else None."""
    return named_known() or next(iter(_known), None)


def named_known() -> Path | None:
    """Returns the folder of known defects that GRADCHECK_KNOWN names, or None."""
    named = os.environ.get("GRADCHECK_KNOWN")
    return Path(named) if named else None


@contextmanager
def loading() -> Iterator[None]:
    """Keeps the garbage collector away from what is loaded inside, in a process of the hunt's own.

    TensorFlow's modules are 300,000 objects that stay: scanning them repeatedly takes half as long as the import, and
    as long again at exit.
    """
    running = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if running:
            gc.freeze()
            gc.enable()


@cache
def configure() -> bool:
    """Imports TensorFlow with one intra-op and one inter-op thread; returns whether the threads could be set.

    Threads that were set before (tf.config.threading, TF_NUM_INTRAOP_THREADS, TF_NUM_INTEROP_THREADS) are kept, and so
    are those of a TensorFlow that has already run an operation. Further calls change nothing.
    """
    set_environment()
    # In a process that has loaded TensorFlow already, other objects are not ours to freeze.
    with nullcontext() if "tensorflow" in sys.modules else loading():
        import tensorflow as tf

    threading = tf.config.threading
    try:
        if not threading.get_intra_op_parallelism_threads() and "TF_NUM_INTRAOP_THREADS" not in os.environ:
            threading.set_intra_op_parallelism_threads(1)
        if not threading.get_inter_op_parallelism_threads() and "TF_NUM_INTEROP_THREADS" not in os.environ:
            threading.set_inter_op_parallelism_threads(1)
    except RuntimeError:
        return False
    return True


def configure_if_loaded() -> None:
    """The same, but only if TensorFlow is loaded already."""
    if "tensorflow" in sys.modules:
        configure()


def example_under_way() -> object | None:
    """Returns an object that identifies the example that Hypothesis is trying; None if failures' messages are read.

    That is the case outside of Hypothesis, in the minimal failing example, which it runs once more to report it, in an
    explicit one, and if it prints all (`Verbosity.verbose`). Releases of Hypothesis that do not tell give None.
    """
    hypothesis, control = sys.modules.get("hypothesis"), sys.modules.get("hypothesis.control")
    if hypothesis is None or control is None:
        return None
    with suppress(Exception):  # raises outside of an example; this is not a public interface
        context: object = control.current_build_context()
        printed = hypothesis.settings.default.verbosity >= hypothesis.Verbosity.verbose
        return context if context.is_final is False and not printed else None  # type: ignore[attr-defined]
    return None
