"""Where a derivative was taken: versions, flags, threads, machine, seed."""

from __future__ import annotations

import os
import platform
import re
from contextlib import suppress
from pathlib import Path
from typing import Any

from gradcheck.documents import Document

XLA = ("XLA_FLAGS", "TF_XLA_FLAGS")


class Environment(Document, frozen=True):
    """Versions and settings that a maintainer asks for first; 0 threads are TensorFlow's own choice."""

    tensorflow: str
    numpy: str
    python: str
    gradcheck: str
    onednn: str
    log_level: str
    intra_op_threads: int
    inter_op_threads: int
    processor: str
    platform: str
    seed: str
    xla: str = "not set"

    @property
    def build(self) -> str:
        """The TensorFlow under test and its flags, in words: what shards of one run have in common on all machines."""
        flags = f"TF_ENABLE_ONEDNN_OPTS {self.onednn}" + f", XLA flags {self.xla}" * (self.xla != "not set")
        return f"TensorFlow {self.tensorflow}, {flags}"

    def rows(self) -> tuple[tuple[str, str], ...]:
        """Display names and values."""
        names = {
            "tensorflow": "TensorFlow",
            "numpy": "NumPy",
            "python": "Python",
            "onednn": "TF_ENABLE_ONEDNN_OPTS",
            "log_level": "TF_CPP_MIN_LOG_LEVEL",
            "xla": "XLA flags",
        }
        return tuple(
            (names.get(name, name.replace("_", "-")), str(getattr(self, name))) for name in self.__struct_fields__
        )


def current(seed: object = None) -> Environment:
    """The environment of this process; `seed` is Hypothesis's, where one was given. Imports TensorFlow."""
    import numpy as np
    import tensorflow as tf

    from gradcheck import __version__

    threading: Any = tf.config.threading
    return Environment(
        tensorflow=tf.__version__,
        numpy=np.__version__,
        python=platform.python_version(),
        gradcheck=__version__,
        onednn=os.environ.get("TF_ENABLE_ONEDNN_OPTS", "not set"),
        log_level=os.environ.get("TF_CPP_MIN_LOG_LEVEL", "not set"),
        intra_op_threads=threading.get_intra_op_parallelism_threads(),
        inter_op_threads=threading.get_inter_op_parallelism_threads(),
        processor=_processor(),
        platform=platform.platform(),
        seed="not set" if seed is None else str(seed),
        xla=" ".join(os.environ[name] for name in XLA if os.environ.get(name)) or "not set",
    )


def _processor() -> str:
    with suppress(OSError):
        found = re.search(r"^model name\s*:\s*(.*\S)", Path("/proc/cpuinfo").read_text("utf-8"), re.MULTILINE)
        if found is not None:
            return found[1]
    return platform.processor() or platform.machine()
