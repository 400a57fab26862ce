"""What a finding at second order means."""

from __future__ import annotations

from dataclasses import dataclass, replace

from gradcheck.finding import Finding


@dataclass(frozen=True)
class SecondExplanation:
    """Says which of the three estimates stands `alone`."""

    alone: str | None

    def __call__(self, finding: Finding, coordinate: int | None) -> Finding:
        if self.alone is None:
            return finding
        return replace(finding, reason=f"{finding.reason}; of the three estimates {self.alone} stands alone")
