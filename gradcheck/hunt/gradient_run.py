"""Records which of TensorFlow's gradient functions a process ran, at which order, and which lines."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Set
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Any, Literal

from gradcheck.documents import Document, Text, matching
from gradcheck.hunt.gradient_code import helpers_of, reachable_code

SourceFile = Annotated[str, matching(r"[A-Za-z0-9_][A-Za-z0-9_/.-]{0,200}\.py")]
"""A file, by its path within the folder that TensorFlow is installed in."""


class GradientRun(Document, frozen=True, tag_field="format", tag="gradcheck gradient run"):
    """The operations whose gradient functions ran at `first` order, and those that a second tape watched meanwhile.

    `arcs` are the pairs of lines that ran one after the other, by file; entering and leaving a function are negative.
    """

    tensorflow: Text
    first: tuple[Text, ...]
    second: tuple[Text, ...]
    arcs: dict[SourceFile, tuple[tuple[int, int], ...]]
    version: Literal[1] = 1

    @staticmethod
    def merged(runs: Iterable[GradientRun]) -> GradientRun:
        """The union of the runs of several processes; raises ValueError for different releases, or none."""
        runs = list(runs)
        releases = sorted({run.tensorflow for run in runs})
        if len(releases) != 1:
            given = " and ".join(releases) or "of no release"
            raise ValueError(f"runs of TensorFlow {given}; expected exactly one release")
        arcs: dict[str, set[tuple[int, int]]] = defaultdict(set)
        for run in runs:
            for place, pairs in run.arcs.items():
                arcs[place].update(pairs)
        first, second = ({name for run in runs for name in getattr(run, order)} for order in ("first", "second"))
        return GradientRun.of(releases[0], first, second, arcs)

    @staticmethod
    def of(
        release: str, first: Set[str], second: Set[str], arcs: Mapping[str, Iterable[tuple[int, int]]]
    ) -> GradientRun:
        """A run, sorted; the functions of `second` count as run at first order, too."""
        pairs = {place: tuple(sorted(arcs[place])) for place in sorted(arcs)}
        return GradientRun(release, tuple(sorted(first | second)), tuple(sorted(second)), pairs)


class NoCoverageError(RuntimeError):
    """coverage.py is not installed."""

    def __init__(self) -> None:
        super().__init__("coverage.py is missing, which counts the lines that run: pip install 'gradcheck[reach]'")


def measurement(files: list[str] | None = None) -> Any:
    """A coverage.Coverage of lines and branches in some files, which keeps nothing on disk; raises NoCoverageError."""
    try:
        import coverage
    except ImportError:
        raise NoCoverageError from None
    return coverage.Coverage(data_file=None, branch=True, include=files, config_file=False)


def installed_in() -> Path:
    """The folder that TensorFlow is installed in."""
    import tensorflow as tf

    return Path(tf.__file__).resolve().parent.parent


class GradientRecorder:
    """Records what runs of TensorFlow's gradients between `start` and `stop`. Raises NoCoverageError."""

    def __init__(self) -> None:
        self._coverage = measurement(sorted({code.file for code in helpers_of(reachable_code().values())}))
        self._home = installed_in()
        self._first: set[str] = set()
        self._second: set[str] = set()
        self._stack = ExitStack()

    def start(self) -> None:
        """Starts recording."""
        from tensorflow.python.eager import record

        from gradcheck.tracing.hooks import gradients_looked_up

        def looked_up(name: str, function: Any) -> Any:
            (self._second if record.could_possibly_record() else self._first).add(name)
            return function

        self._stack.enter_context(gradients_looked_up(looked_up))
        self._stack.callback(self._coverage.stop)
        self._coverage.start()

    def stop(self) -> GradientRun:
        """Stops recording, and returns what ran since `start`."""
        self._stack.close()
        return self.so_far()

    def so_far(self) -> GradientRun:
        """The run since `start`, which goes on."""
        import tensorflow as tf

        data = self._coverage.get_data()
        arcs = {self._place(file): data.arcs(file) or () for file in data.measured_files()}
        return GradientRun.of(str(tf.__version__), self._first, self._second, arcs)

    def _place(self, file: str) -> str:
        return Path(file).resolve().relative_to(self._home).as_posix()
