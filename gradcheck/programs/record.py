"""What a tape holds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from gradcheck.programs.application import Application
from gradcheck.programs.tensor import Tensor


@dataclass(eq=False)
class Record:
    """What one tape holds: the tensors that it follows, each with the application that made it (None: watched).

    Rules of tensorflow/c/eager/tape.h (Watch, ShouldRecord, RecordOperation).
    """

    accessed: bool
    entries: dict[Tensor, Application | None] = field(default_factory=dict)

    def watch(self, tensor: Tensor) -> None:
        """Follow a tensor; one that is followed already keeps its application."""
        self.entries.setdefault(tensor, None)

    def note(self, application: Application) -> None:
        """Record an application if a floating input is followed."""
        if any(tensor in self.entries and tensor.floating for tensor in application.inputs):
            self.entries.update(dict.fromkeys(application.outputs, application))

    def applications(self, targets: Sequence[Tensor]) -> list[Application]:
        """All recorded applications behind `targets`, each after those that it depends on."""
        found: dict[Application, None] = {}
        visited: set[Tensor] = set()

        def visit(tensor: Tensor) -> None:
            if tensor in visited:
                return
            visited.add(tensor)
            application = self.entries.get(tensor)
            if application is not None and application not in found:
                for parent in application.inputs:
                    visit(parent)
                found[application] = None

        for target in targets:
            visit(target)
        return list(found)
