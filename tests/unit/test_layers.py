"""Imports go one way. The source is parsed, so that imports inside functions and for the type checker count, too."""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import gradcheck
from gradcheck import strategies

ROOT = Path(__file__).resolve().parents[2]


def layers(architecture: str) -> dict[str, int]:
    """The rows of the table of layers, by the dotted names in them; later rows may import earlier ones."""
    section = architecture.partition("\n## Layers\n")[2].partition("\n## ")[0]
    cells = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]
    rows = [re.findall(r"`([\w/.]+)`", cell) for cell in cells]
    return {
        path.removesuffix(".py").strip("/").replace("/", "."): rank for rank, row in enumerate(rows) for path in row
    }


ARCHITECTURE = ROOT / "gradcheck" / "README.md"
RANK = layers(ARCHITECTURE.read_text(encoding="utf-8"))
TENSORFLOW = {"tensorflow", "keras", "tf_keras"}
TOP_LEVEL = {
    *("pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md", "CONTRIBUTING.md", "CITATION.cff"),
    *("findings", "gradcheck", "strategies", "tests", "reports"),
}
LONGEST = 600
FRAGMENT = 60
"""Lines below which a file with a single importer belongs into that one."""
PACKAGE = "gradcheck.__init__"


@dataclass(frozen=True)
class Import:
    """One imported name: `target` is absolute, `level` the leading dots it was written with."""

    target: str
    level: int
    line: int


@dataclass(frozen=True)
class Module:
    """A source file under the dotted name by which it is imported."""

    name: str
    path: Path
    is_package: bool

    @cache  # noqa: B019 - the modules live as long as the process
    def imports(self) -> tuple[Import, ...]:
        """Every import statement, wherever it stands; `from a import b` gives a.b, which may be a module or a name."""
        return tuple(self._imports())

    def _imports(self) -> Iterator[Import]:
        for node in ast.walk(ast.parse(self.path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                yield from (Import(alias.name, 0, node.lineno) for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                base = self._absolute(node.module, node.level)
                yield from (Import(f"{base}.{alias.name}", node.level, node.lineno) for alias in node.names)

    def _absolute(self, module: str | None, level: int) -> str:
        if not level:
            return module or ""
        parts = self.name.split(".") + ["__init__"] * self.is_package
        return ".".join([*parts[: len(parts) - level], *([module] if module else [])])


def modules(folder: Path, package: str) -> dict[str, Module]:
    """The modules of a folder that is imported as `package`."""
    found = {}
    for path in sorted(folder.rglob("*.py")):
        parts = [package, *path.relative_to(folder).with_suffix("").parts]
        is_package = parts[-1] == "__init__"
        name = ".".join(parts[:-1] if is_package else parts)
        found[name] = Module(name, path, is_package)
    return found


def layer(name: str) -> str | None:
    """The row of the table for a dotted name below gradcheck, by the longest prefix in it; None if there is none.

    A name that is not a module, such as the function `gradcheck.check`, is one of the package's own.
    """
    parts = name.split(".")
    prefixes = (".".join(parts[:count]) for count in range(len(parts), 1, -1))
    return next((prefix for prefix in prefixes if prefix in RANK), None)


def complaints(root: Path) -> list[str]:
    """The violations of the layers in a tree with gradcheck/ and strategies/, as `file:line: complaint`."""
    library, strategies = modules(root / "gradcheck", "gradcheck"), modules(root / "strategies", "gradcheck.strategies")
    found = [
        f"{module.path.relative_to(root)}: in no layer; add it to the table of layers in gradcheck/README.md"
        for module in library.values()
        if module.name != "gradcheck" and layer(module.name) is None
    ]
    for module, rule in [
        *((module, _library_complaint) for module in library.values()),
        *((module, _strategies_complaint) for module in strategies.values()),
    ]:
        for target in module.imports():
            complaint = rule(module, target)
            if complaint:
                found.append(f"{module.path.relative_to(root)}:{target.line}: {complaint}")
    return found + _circles({**library, **strategies})


def _library_complaint(module: Module, target: Import) -> str | None:
    top = target.target.split(".")[0]
    if top == "strategies" or target.target.startswith("gradcheck.strategies"):
        return f"imports {target.target}; gradcheck never imports its strategies"
    if top in TENSORFLOW and layer(module.name) == "gradcheck.numerics":
        return f"imports {target.target}; numerics is NumPy only"
    if top != "gradcheck" or target.target == "gradcheck.__version__":
        return None
    here, there = layer(module.name) or PACKAGE, layer(target.target) or PACKAGE
    return f"{here} imports {there} ({target.target}), a later layer" if RANK[there] > RANK[here] else None


def _strategies_complaint(module: Module, target: Import) -> str | None:
    own = f"{target.target}.".startswith("gradcheck.strategies.")
    if target.target.split(".")[0] == "strategies":
        return f"imports {target.target}; the only name is gradcheck.strategies"
    if own and not target.level:
        return f"imports {target.target} absolutely; strategies imports itself relatively"
    if target.level and not own:
        return f"imports {target.target} relatively; strategies imports gradcheck absolutely"
    return None


def importers(known: dict[str, Module]) -> dict[str, set[str]]:
    """For each module the others that import it, or a name from it."""
    found: dict[str, set[str]] = {name: set() for name in known}
    for name, module in known.items():
        for target in module.imports():
            imported = next((one for one in (target.target, target.target.rpartition(".")[0]) if one in known), name)
            found[imported] |= {name} - {imported}
    return found


def fragments(root: Path) -> list[str]:
    """The short files with a single importer, with that one."""
    known = {**modules(root / "gradcheck", "gradcheck"), **modules(root / "strategies", "gradcheck.strategies")}
    return [
        f"{known[name].path.relative_to(root)} is imported by {only} alone: it belongs into that file"
        for name, (only, *others) in ((name, found) for name, found in importers(known).items() if found)
        if not others
        and not known[name].is_package
        and not known[only].is_package  # which collects the files of a folder
        and len(known[name].path.read_text(encoding="utf-8").splitlines()) < FRAGMENT
    ]


def _circles(known: dict[str, Module]) -> list[str]:
    graph = {}
    for name, module in known.items():
        candidates = {target.target for target in module.imports()}
        candidates |= {target.rpartition(".")[0] for target in candidates if target not in known}
        graph[name] = {target for target in candidates if target in known and target != name}
    graph["gradcheck"] = set()  # loads its names lazily, so that it does not close a cycle
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return ["a circle of imports: " + " -> ".join(error.args[1])]
    return []


def test_imports_go_one_way() -> None:
    found = complaints(ROOT)
    assert not found, "\n".join(found)


VIOLATIONS = [
    ("gradcheck/numerics/a.py", "from gradcheck.hunt import graph", "numerics imports gradcheck.hunt"),
    ("gradcheck/numerics/a.py", "from ..hunt.trial import run", "numerics imports gradcheck.hunt"),
    ("gradcheck/numerics/a.py", "def f():\n    import gradcheck.check", "numerics imports gradcheck.check"),
    ("gradcheck/numerics/a.py", "def f():\n    from tensorflow import linalg", "NumPy only"),
    ("gradcheck/numerics/a.py", "if TYPE_CHECKING:\n    import tensorflow as tf", "NumPy only"),
    ("gradcheck/result.py", "from gradcheck.defects import known", "result imports gradcheck.defects"),
    ("gradcheck/result.py", "from gradcheck import check", "result imports gradcheck.check"),
    ("gradcheck/result.py", "from gradcheck import GradientMismatch", "result imports gradcheck.__init__"),
    ("gradcheck/result.py", "import gradcheck", "result imports gradcheck.__init__"),
    ("gradcheck/runtime.py", "from gradcheck.result import Finding", "runtime imports gradcheck.result"),
    ("gradcheck/check.py", "from gradcheck.hunt.trial import run", "check imports gradcheck.hunt"),
    ("gradcheck/defects/known.py", "from gradcheck.hunt.trial import run", "defects imports gradcheck.hunt"),
    ("gradcheck/check.py", "from gradcheck.pytest_plugin import table", "check imports gradcheck.pytest_plugin"),
    ("gradcheck/check.py", "from gradcheck.strategies import shapes", "never imports its strategies"),
    ("gradcheck/check.py", "from .strategies.shapes import shapes", "never imports its strategies"),
    ("gradcheck/check.py", "import strategies", "never imports its strategies"),
    ("gradcheck/novelty.py", "", "in no layer; add it to the table of layers"),
    ("strategies/a.py", "from gradcheck.strategies.shapes import shapes", "imports itself relatively"),
    ("strategies/a.py", "from gradcheck.strategies import shapes", "imports itself relatively"),
    ("strategies/a.py", "from ..graphs.graph import Graph", "imports gradcheck absolutely"),
    ("strategies/a.py", "from strategies.shapes import shapes", "the only name is gradcheck.strategies"),
]


def test_a_planted_violation_is_found(tmp_path: Path) -> None:
    for number, (path, source, complaint) in enumerate(VIOLATIONS):
        planted = tmp_path / str(number) / path
        planted.parent.mkdir(parents=True)
        planted.write_text(source)
        (found,) = complaints(tmp_path / str(number))
        assert found.startswith(path), source
        assert complaint in found, source


def test_a_planted_circle_is_found(tmp_path: Path) -> None:
    (tmp_path / "strategies").mkdir()
    (tmp_path / "strategies/a.py").write_text("from .b import two")
    (tmp_path / "strategies/b.py").write_text("def f():\n    from . import a")
    (found,) = complaints(tmp_path)
    assert (
        "gradcheck.strategies.a -> gradcheck.strategies.b" in found or "strategies.b -> gradcheck.strategies.a" in found
    )


def test_allowed_imports_are_no_complaint(tmp_path: Path) -> None:
    for path, source in {
        "gradcheck/__init__.py": "from gradcheck.check import check",
        "gradcheck/result.py": "from gradcheck import __version__",
        "gradcheck/check.py": "import tensorflow\nfrom .result import Finding\nfrom gradcheck.explain import explain",
        "gradcheck/explain.py": "from gradcheck.result import Finding",
        "strategies/shapes.py": "",
        "strategies/graphs.py": "from gradcheck.check import check\nfrom . import shapes\nfrom .shapes import shape",
    }.items():
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text(source)
    assert complaints(tmp_path) == []


def test_no_test_imports_strategies_by_the_name_of_its_folder() -> None:
    culprits = [
        f"{module.path}:{target.line}"
        for module in modules(ROOT / "tests", "tests").values()
        for target in module.imports()
        if target.target.split(".")[0] == "strategies"
    ]
    assert culprits == []


def test_no_file_is_a_fragment_of_another() -> None:
    assert fragments(ROOT) == []


def test_a_planted_fragment_is_found(tmp_path: Path) -> None:
    for path, source in {
        "gradcheck/check.py": "from gradcheck.result import Finding\nfrom gradcheck.part import f",
        "gradcheck/part.py": "from gradcheck.result import Finding\ndef f(): ...",
        "gradcheck/result.py": "class Finding: ...",
        "strategies/graphs.py": "\n" * FRAGMENT,
        "strategies/__init__.py": "from .graphs import graphs",
    }.items():
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text(source)
    assert fragments(tmp_path) == ["gradcheck/part.py is imported by gradcheck.check alone: it belongs into that file"]


@pytest.mark.parametrize("folder", ["gradcheck", "strategies"])
def test_files_are_short(folder: str) -> None:
    lengths = {path: len(path.read_text(encoding="utf-8").splitlines()) for path in (ROOT / folder).rglob("*.py")}
    assert lengths
    assert {str(path): length for path, length in lengths.items() if length > LONGEST} == {}


def test_the_top_level_holds_only_what_belongs_there() -> None:
    # safe.directory: a container often runs as another user than the owner of the checkout.
    command = ["git", "-c", "safe.directory=*", "ls-files"]
    try:
        listing = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("not a git checkout, or git is not installed")
    tracked = {line.partition("/")[0] for line in listing.splitlines()}
    assert {name for name in tracked if not name.startswith(".")} - TOP_LEVEL == set()


def doubled(names: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    """For (name, place) pairs: the names with more than one place, and these places."""
    places: dict[str, list[str]] = {}
    for name, place in names:
        places.setdefault(name, []).append(place)
    return {name: found for name, found in places.items() if len(found) > 1}


def types(source: str) -> Iterator[tuple[str, int]]:
    """The classes of a source, and the capitalized names that it gives to other types, with their lines."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            yield node.name, node.lineno
    for statement in tree.body:
        if isinstance(statement, (ast.Assign, ast.AnnAssign)) and statement.value is not None:
            targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
            for target in targets:
                if isinstance(target, ast.Name) and re.match("[A-Z][a-z]", target.id):
                    yield target.id, statement.lineno


def test_no_other_type_has_the_name_of_a_public_one() -> None:
    public = {*gradcheck.__all__, *strategies.__all__}
    found = [
        (name, f"{module.path}:{line}")
        for folder, package in (("gradcheck", "gradcheck"), ("strategies", "gradcheck.strategies"))
        for module in modules(ROOT / folder, package).values()
        for name, line in types(module.path.read_text(encoding="utf-8"))
    ]
    assert len(found) > 300
    assert {name: places for name, places in doubled(found).items() if name in public} == {}


def test_types_are_classes_and_aliases() -> None:
    source = "class Run:\n    class Inner: ...\nWord = str | None\nText: TypeAlias = str\nMOST = 4\nx = 1\n"
    assert sorted(types(source)) == [("Inner", 2), ("Run", 1), ("Text", 4), ("Word", 3)]


def test_a_name_that_stands_twice_is_found() -> None:
    assert doubled([("Run", "a.py:1"), ("Walk", "a.py:9"), ("Run", "b.py:1")]) == {"Run": ["a.py:1", "b.py:1"]}


def test_the_walks_through_the_code_lead_to_what_is_there() -> None:
    page = ARCHITECTURE.read_text(encoding="utf-8")
    decides = page.partition("\n## How it decides\n")[2].partition("\n## ")[0]
    walks = [decides, *page.partition("\n## Two walks through the code\n")[2].split("\n*A ")[1:]]
    hops = [re.findall(r"`([\w/]+\.py)::(\w+)`", walk) for walk in walks]
    assert [len(walk) for walk in hops] == [7, 7, 8]
    for path, name in (hop for walk in hops for hop in walk):
        source = (ROOT / path).read_text(encoding="utf-8")
        assert re.search(rf"^(def|class) {name}\b", source, re.MULTILINE), f"no {name} in {path}"
