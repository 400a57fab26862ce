"""The JSON Schemas of all documents; `python -m tests.schemas` writes them to reports/schemas."""

from __future__ import annotations

import inspect
import json
from pathlib import Path
from typing import Any

import msgspec

from gradcheck import files
from gradcheck.defects.causes import KnownCause
from gradcheck.defects.graph_document import GraphDocument
from gradcheck.defects.records import Defect, TapeDefect
from gradcheck.defects.tape_program import Program
from gradcheck.hunt.coverage import CoverageCounts
from gradcheck.hunt.events import Event
from gradcheck.hunt.gradient_run import GradientRun
from gradcheck.hunt.json_report import Report

DOCUMENTS: dict[str, Any] = {
    "coverage": CoverageCounts,
    "event": Event,
    "gradient-run": GradientRun,
    "graph": GraphDocument,
    "known-cause": KnownCause,
    "known-defect": Defect,
    "known-tape-defect": TapeDefect,
    "report": Report,
    "tape-program": Program,
}
"""The types of documents, by the names of their schemas' files."""
FOLDER = Path("reports", "schemas")


def schema_text(name: str) -> str:
    """The JSON Schema of a document, as its file holds it."""
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": f"gradcheck {name.replace('-', ' ')}"}
    return json.dumps({**head, **_cleaned(msgspec.json.schema(DOCUMENTS[name]))}, indent=2) + "\n"


def _cleaned(schema: Any) -> Any:
    """The schema with descriptions that have no indentation, which Python keeps in docstrings until 3.13."""
    if isinstance(schema, list):
        return [_cleaned(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    is_text = isinstance(schema.get("description"), str)
    found = {key: _cleaned(value) for key, value in schema.items()}
    return {**found, "description": inspect.cleandoc(schema["description"])} if is_text else found


def write(folder: Path = FOLDER) -> None:
    """Writes all schemas; raises OSError where they cannot be written."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in DOCUMENTS:
        files.replace(folder / f"{name}.json", schema_text(name))


if __name__ == "__main__":
    write()
