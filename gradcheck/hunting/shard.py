"""A share of a run: each machine of N takes its own tests, without asking the others."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass

FORM = re.compile(r"([1-9]\d{0,3})/([1-9]\d{0,3})")


@dataclass(frozen=True)
class Shard:
    """Share `number` of `count`. A test's share depends on its name alone, so that it stays when others come or go.

    >>> [str(Shard(number, 3)) for number in (1, 2, 3) if Shard(number, 3).takes("test_sin")]
    ['3/3']
    """

    number: int = 1
    count: int = 1

    @staticmethod
    def parse(text: str) -> Shard:
        """The shard that "K/N" names, K from 1 to N; raises ValueError."""
        match = FORM.fullmatch(text)
        if match is None or int(match[1]) > int(match[2]):
            raise ValueError(f"shard was {text!r}; expected K/N with K from 1 to N, such as 1/4")
        return Shard(int(match[1]), int(match[2]))

    def takes(self, name: str) -> bool:
        """Whether the test of this name is in the share; it is in exactly one of all N."""
        return int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big") % self.count == self.number - 1

    def __str__(self) -> str:
        return f"{self.number}/{self.count}"
