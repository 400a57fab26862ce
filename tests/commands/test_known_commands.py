from __future__ import annotations

import json
import shlex
import shutil
from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf
from msgspec import structs

from gradcheck.defects import known
from gradcheck.defects.causes import text_of
from gradcheck.defects.records import Defect, Releases
from gradcheck.graph import Graph, Node, literal
from gradcheck.hunt.commands.known_add import CLOSE
from gradcheck.operations.special_sets import DESCRIBED
from tests import records, slices
from tests.records import COMMITTED, DEFECTS, RECORDS, covering, document, from_json

CUMPROD = "cumprod-zero-order1"
WORDS = ("--title", "the gradient at 0 is 0", "--source", "By hand: 1 + b + bc.")
RELEASE = tf.__version__.partition("-")[0]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """An empty folder of known defects, where the commands look for it."""
    place = tmp_path / "reports" / "known"
    place.mkdir(parents=True)
    return place


def copied(folder: Path, defect: str = CUMPROD, **fields: Any) -> Path:
    """A committed defect, with some fields of its JSON replaced."""
    return records.copied(folder, defect, **fields)


def test_list(call: Any, folder: Path) -> None:
    copied(folder)
    copied(folder, "xlogy-zero-order1", releases={"from": "2.16", "until": "2.17"})
    said = call("known", "list")
    assert (said.code, said.next) == (0, "python -m gradcheck known show NAME")
    assert (
        "cumprod-at-zero: defect, silently wrong\n  cumprod-zero-order1  wrong value  silently wrong  from 2.18  "
        in said.out
    )
    assert "mul-no-nan-at-zero: convention, silently wrong\n" in said.out
    assert "2.16 to before 2.17  -     " in said.out
    assert "2 known defects, 1 of them in TensorFlow 2." in said.out
    assert "2 root causes: 1 of class defect, 1 of class convention" in said.out
    data = call("known", "list", "--json").json
    assert list(data) == ["format", "version", "tensorflow", "defects", "tape_defects", "exit_code", "next"]
    assert data["tape_defects"] == []
    assert data["defects"][0] == {
        "name": CUMPROD,
        "title": document(CUMPROD)["title"],
        "operation": "cumprod",
        "order": 1,
        "kind": "wrong value",
        "description": "zero in argument 0",
        "from": "2.18",
        "until": None,
        "here": True,
        "upstream": "https://github.com/tensorflow/tensorflow/issues/119430",
        "class": "defect",
        "cause": "cumprod-at-zero",
        "severity": "silently wrong",
    }


def test_a_record_is_shown_in_full_with_a_text_for_an_issue(call: Any, folder: Path) -> None:
    copied(folder)
    copied(folder, "tape-watch-while-stopped")
    said = call("known", "show", CUMPROD, "tape-watch-while-stopped")
    assert (said.code, said.next) == (0, f"python -m gradcheck known check {CUMPROD}")
    (record,) = [one for one in DEFECTS if one.name == CUMPROD]
    for text in (
        "  defect, root cause cumprod-at-zero; wrong value (silently wrong), reverse, eager; from 2.18, here\n",
        f"  source: {record.source}\n",
        "  kernels: Cumprod\n",
        "  remedy:\n    rows = [x[..., 0]]\n",
        f"    Title: {record.title}\n",
        f"    TensorFlow version: {tf.__version__}\n",
        "    - derivative by x: [0.0, 0.0, 0.0]; right: [9.0, 0.0, 0.0]\n",
        "    x = np.array([0.0, 2.0, 3.0])\n",
        "    import tensorflow as tf\n",
    ):
        assert text in said.out, text
    data = call("known", "show", CUMPROD, "--json").json
    assert (data["defects"][0]["remedy"], data["tape_defects"]) == (record.remedy, [])
    assert data["defects"][0]["kernels"] == ["Cumprod"]
    assert data["defects"][0]["issue"].startswith(f"Title: {record.title}\nIssue type: Bug\n")
    unnamed = call("known", "show", "cumprod").err
    assert "cumprod: no known defect of this name; did you mean " in unnamed
    assert CUMPROD in unnamed


@pytest.mark.parametrize("name", [CUMPROD, "cumprod-zero-order2", "xlogy-zero-order1", "complex_cumprod-order1"])
def test_what_is_added_is_the_committed_defect_in_a_narrow_region(
    call: Any, written: Any, folder: Path, defects: Any, name: str
) -> None:
    said = call("known", "add", written(name), *WORDS, "--upstream", "https://github.com/x/y/issues/1", "--name", name)
    assert (said.code, said.next) == (0, f"python -m gradcheck known check {name}")
    (made,), true = known.load(folder), defects[name]
    assert (made.name, made.title, made.source) == (name, WORDS[1], WORDS[3])
    assert (made.signature, made.graph) == (true.signature, true.graph)
    for mine, theirs in zip(made.right, true.right, strict=True):
        assert mine == pytest.approx(theirs, rel=1e-7, abs=1e-7)
    assert made.given == true.given
    assert (made.releases.since, made.releases.until) == (RELEASE, None)
    assert made.upstream == "https://github.com/x/y/issues/1"
    (region,) = made.regions
    node = made.graph.nodes[0]
    rank = len(made.graph.inputs[node.parents[region.deciding[0]]].shape)
    assert (region.attrs, region.ranks, region.orders) == (node.attrs, (rank,), (made.signature.order,))
    assert not region.everywhere
    assert call("known", "check").code == 0


def test_the_name_comes_from_the_signature_and_no_file_is_overwritten(call: Any, written: Any, folder: Path) -> None:
    assert call("known", "add", written(CUMPROD), *WORDS).code == 0
    before = (folder / f"{CUMPROD}.json").read_bytes()
    for more, complaint in (
        ((), f"{CUMPROD}.json: {CUMPROD} is already there; choose another name with --name"),
        (("--name", "other"), f"already known as {CUMPROD}"),
        (("--name", "../../x"), "--name was '../../x'; expected a text like"),
    ):
        said = call("known", "add", written(CUMPROD), *WORDS, *more)
        assert said.code == 2
        assert complaint in said.err
    assert [path.name for path in folder.iterdir()] == [f"{CUMPROD}.json"]
    assert (folder / f"{CUMPROD}.json").read_bytes() == before


@pytest.fixture
def both(folder: Path) -> Path:
    """The file of a cause with two examples, which share the releases."""
    path = folder / "cumprod-at-zero.json"
    known.write(path, [from_json(document(name)) for name in (CUMPROD, "cumprod-zero-order2")])
    assert json.loads(path.read_text())["shared"]["releases"] == {"from": "2.18", "until": None}
    return path


def test_an_example_is_added_to_a_cause(call: Any, written: Any, folder: Path) -> None:
    path = copied(folder, "cumprod-zero-order2")
    before = known.read(path)
    said = call("known", "add", written(CUMPROD), *WORDS, "--cause", "cumprod-at-zero")
    assert (said.code, said.out.split("\n")[0]) == (0, f"added {path}")
    made, other = known.read(path)
    assert (made.name, made.cause, made.title) == (CUMPROD, "cumprod-at-zero", WORDS[1])
    assert (other,) == before
    assert path.read_text() == text_of([other, made])
    assert [one.name for one in folder.iterdir()] == [path.name]


def test_a_cause_begins_with_its_first_example(call: Any, written: Any, folder: Path) -> None:
    said = call("known", "add", written(CUMPROD), *WORDS, "--cause", "at-zero", "--json")
    assert (said.code, said.json["file"]) == (0, str(folder / "at-zero.json"))
    ((made,),) = [known.read(path) for path in folder.iterdir()]
    assert (made.name, made.cause, said.json["defect"]["group"]) == (CUMPROD, "at-zero", "at-zero")


@pytest.mark.parametrize(
    ("more", "complaint"),
    [
        (("--cause", "cumprod-at-zero"), f"cumprod-at-zero.json: {CUMPROD} is already there; choose another name"),
        (
            ("--name", "cumprod-at-zero"),
            "already there; choose another name with --name, or add to it",
        ),
        (("--name", "new", "--cause", "../x"), "--cause was '../x'; expected a text like"),
        (
            ("--name", "new", "--cause", "old"),
            "old.json: holds old of the cause cumprod-at-zero; name that",
        ),
    ],
)
def test_names_that_are_taken_are_refused(
    call: Any, written: Any, both: Path, more: tuple[str, ...], complaint: str
) -> None:
    both.with_name("old.json").write_text(json.dumps(document(CUMPROD) | {"name": "old"}))
    before = {path: path.read_bytes() for path in both.parent.iterdir()}
    said = call("known", "add", written(CUMPROD), *WORDS, *more)
    assert said.code == 2
    assert complaint in said.err
    assert {path: path.read_bytes() for path in both.parent.iterdir()} == before


def test_a_whole_operation_is_left_out_only_with_wide(call: Any, written: Any, folder: Path) -> None:
    path = written("quantize_and_dequantize_of_own_range-order1")
    said = call("known", "add", path, *WORDS)
    assert said.code == 2
    assert "the whole operation would be left out at order 1; give --wide" in said.err
    assert not list(folder.iterdir())
    assert call("known", "add", path, *WORDS, "--wide").code == 0
    (made,) = known.load(folder)
    assert made.regions[0].everywhere


def test_what_is_right_here_or_cannot_run_is_not_added(call: Any, written: Any, folder: Path) -> None:
    sin = Graph((literal([0.0]),), (Node.of("sin", 0),))
    composed = Graph((literal([0.0]),), (Node.of("relu", 0), Node.of("abs", 1)))
    for graph, complaint in ((sin, "there is nothing to add"), (composed, "cannot tell: inconclusive")):
        path = written(CUMPROD, graph=graph, culprit=graph.nodes[0].op, cotangent=literal([1.0]))
        said = call("known", "add", path, *WORDS)
        assert said.code == 2
        assert complaint in said.err
    assert not list(folder.iterdir())


def test_the_description_is_that_of_the_graph_s_values(call: Any, written: Any, folder: Path) -> None:
    assert call("known", "add", written(CUMPROD, description="tie in argument 0"), *WORDS).code == 0
    (made,) = known.load(folder)
    assert made.description == made.regions[0].set_name == "zero in argument 0"


@pytest.mark.parametrize(
    ("more", "complaint"),
    [
        (("--right", "[[8, 0, 0]]"), "differences give [[9.0"),
        (("--right", "[[9, 0]]"), "differences give [[9.0"),
        (("--right", "nine"), "expected a list of numbers for each input"),
        (("--upstream", "javascript:alert(1)"), "$.upstream: 'javascript:alert(1)' was given"),
        (("--title", ""), "$.title: a text of 0 characters was given"),
        (("--folder", "nowhere"), "nowhere: no such folder"),
    ],
)
def test_words_that_do_not_fit_are_named(
    call: Any, written: Any, folder: Path, more: tuple[str, str], complaint: str
) -> None:
    said = call("known", "add", written(CUMPROD), *WORDS, *more)
    assert said.code == 2
    assert complaint in said.err
    assert not list(folder.iterdir())


def test_an_operation_with_attributes_is_left_out_at_those_only(call: Any, written: Any, folder: Path) -> None:
    assert call("known", "add", written("complex_cumprod-order1"), *WORDS).code == 0
    (made,) = known.load(folder)
    assert made.description == "none"
    assert made.regions[0].set_name is None
    assert made.regions[0].attrs == {"exclusive": False, "reverse": False}


def test_right_may_be_given_in_full_digits(call: Any, written: Any, folder: Path) -> None:
    assert call("known", "add", written(CUMPROD), *WORDS, "--right", "[[9.000001, 0, 0]]").code == 0
    assert known.load(folder)[0].right == ((9.000001, 0.0, 0.0),)


def test_a_folder_that_cannot_be_written_to_is_named(
    call: Any, written: Any, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, one = written(CUMPROD), copied(folder, "xlogy-zero-order1", right=[[0.0], [0.0]], given=[[1.0], [0.0]])
    before = one.read_bytes()

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(30, "Read-only file system")

    monkeypatch.setattr("gradcheck.files._created_beside", refuse)
    said = call("known", "add", path, *WORDS)
    assert said.code == 2
    assert f"{folder}: cannot be written to" in said.err
    assert "Read-only file system" in said.err
    said = call("known", "fixed", "xlogy-zero-order1")
    assert said.code == 2
    assert f"{one}: cannot be written" in said.err
    assert [entry.read_bytes() for entry in folder.iterdir()] == [before]


def test_check_tells_every_state(call: Any, folder: Path) -> None:
    data = document(CUMPROD)
    swapped = {"right": data["given"], "given": data["right"]}
    since = {"from": "99.1", "until": None}
    ended = {"from": "2.17", "until": "2.18"}
    copied(folder, name="still")
    assert call("known", "check").code == 0
    copied(folder, name="recorded", releases=ended, **swapped)
    said = call("known", "check")
    assert (said.code, said.next) == (0, "python -m pytest tests/properties")
    copied(folder, name="gone", **swapped)
    copied(folder, name="other", given=[[1.0, 0.0, 0.0]])
    copied(folder, name="returned", releases=ended)
    copied(folder, name="older", releases=since)
    said = call("known", "check", "--json")
    assert {one["name"]: one["state"] for one in said.json["defects"]} == {
        "still": "still wrong",
        "recorded": "fixed, as recorded",
        "gone": "fixed",
        "other": "changed",
        "returned": "back",
        "older": "wrong earlier",
    }
    assert (said.code, said.json["next"]) == (1, "python -m gradcheck known fixed gone")
    assert list(said.json) == ["format", "version", "tensorflow", "defects", "tape_defects", "exit_code", "next"]
    assert list(said.json["defects"][0]) == ["name", "state", "message", "title", "upstream"]
    copied(folder, name="broken", cotangent={"dtype": "float64", "shape": [1], "values": [1.0]})
    said = call("known", "check", "broken")
    assert (said.code, said.next) == (2, f"look at broken in {folder / 'broken.json'} and correct it (cannot tell)")
    assert call("known", "check", "still").code == 0


def test_a_name_that_is_not_known_suggests_the_nearest(call: Any, folder: Path) -> None:
    copied(folder)
    for command in ("check", "fixed"):
        said = call("known", command, "cumprod-zero-order3")
        assert said.code == 2
        assert "did you mean cumprod-zero-order1?" in said.err


def test_fixed_writes_the_release_and_nothing_else(call: Any, folder: Path) -> None:
    path = copied(folder)
    before = path.read_text()
    said = call("known", "fixed", CUMPROD, "--release", "99.1.0")
    assert said.code == 0
    assert said.next.startswith(f"git diff {path}")
    assert path.read_text() == before.replace('"until": null', '"until": "99.1.0"')
    assert known.load(folder)[0].covers("98.0.0")


def test_fixed_changes_one_example_of_a_cause(call: Any, both: Path) -> None:
    first, second = known.read(both)
    assert call("known", "fixed", CUMPROD, "--release", "99.1.0").code == 0
    now, other = known.read(both)
    assert now == structs.replace(first, releases=Releases("2.18", "99.1.0"))
    assert other == second
    data = json.loads(both.read_text())
    assert "releases" not in data["shared"]
    assert [one["releases"]["until"] for one in data["examples"]] == ["99.1.0", None]
    assert call("known", "fixed", "cumprod-zero-order2", "--release", "99.1.0").code == 0
    assert json.loads(both.read_text())["shared"]["releases"] == {"from": "2.18", "until": "99.1.0"}


@pytest.mark.parametrize(("group", "form"), [("", "gradcheck known cause"), ("other", "gradcheck known defect")])
def test_fixed_rewrites_a_file_of_one_record(call: Any, folder: Path, group: str, form: str) -> None:
    path = folder / f"{CUMPROD}.json"
    before = document(CUMPROD) | {"group": group}
    path.write_text(json.dumps(before))
    assert call("known", "fixed", CUMPROD, "--release", "99.1.0").code == 0
    after = before | {"releases": {"from": "2.18", "until": "99.1.0"}, "group": group or CUMPROD}
    assert known.read(path) == (from_json(after),)
    assert json.loads(path.read_text())["format"] == form


def test_the_next_step_names_the_file_of_a_cause(call: Any, both: Path) -> None:
    first, second = known.read(both)
    assert isinstance(second, Defect)
    known.write(both, [first, structs.replace(second, given=((1.0, 0.0, 0.0),))])
    said = call("known", "check")
    assert (said.code, said.next) == (1, f"look at cumprod-zero-order2 in {both} and correct it (changed)")


@pytest.mark.parametrize(
    ("more", "complaint"),
    [
        ((), f"is still wrong on TensorFlow {tf.__version__}"),
        (("--release", tf.__version__), f"is still wrong on TensorFlow {tf.__version__}"),
        (("--release", "2.18"), "release 2.18 is not after 2.18"),
        (("--release", "soon"), "--release was 'soon'; expected a release of TensorFlow"),
    ],
)
def test_what_the_installed_release_contradicts_is_refused(
    call: Any, folder: Path, more: tuple[str, ...], complaint: str
) -> None:
    path = copied(folder)
    before = path.read_bytes()
    said = call("known", "fixed", CUMPROD, *more)
    assert said.code == 2
    assert complaint in said.err
    assert path.read_bytes() == before


def test_fixed_asks_the_installed_release(call: Any, folder: Path) -> None:
    data = document(CUMPROD)
    copied(folder, right=data["given"], given=data["right"])
    assert call("known", "fixed", CUMPROD).code == 0
    assert known.load(folder)[0].releases.until == RELEASE
    assert call("known", "check").code == 0


def test_a_release_after_one_that_is_right_is_refused(call: Any, folder: Path) -> None:
    path = copied(folder, "xlogy-zero-order1", right=[[0.0], [0.0]], given=[[1.0], [0.0]])
    before = path.read_bytes()
    said = call("known", "fixed", "xlogy-zero-order1", "--release", "99.1")
    assert said.code == 2
    assert f"is right on TensorFlow {tf.__version__} already; name that release" in said.err
    assert path.read_bytes() == before


def test_the_next_step_is_about_the_folder_that_was_named(call: Any, tmp_path: Path) -> None:
    place = tmp_path / "else where"
    place.mkdir()
    copied(place)
    for command, expected in (
        (("list",), "known show NAME"),
        (("show", CUMPROD), f"known check {CUMPROD}"),
    ):
        said = call("known", *command, "--folder", place)
        assert said.next == f"python -m gradcheck {expected} --folder '{place}'"


def test_there_has_to_be_a_folder_to_write_into(call: Any) -> None:
    for command in (("fixed", CUMPROD), ("kernels",)):
        said = call("known", *command)
        assert said.code == 2
        assert "no folder reports/known here or above; name one with --folder DIR" in said.err


def test_what_came_with_the_package_is_listed_shown_and_checked_anywhere(
    call: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "0 known defects" in call("known", "list").out
    monkeypatch.setattr("gradcheck.defects.known.installed", lambda: COMMITTED)
    assert f"  {CUMPROD}  " in call("known", "list").out
    assert call("known", "show", CUMPROD).out.startswith(f"{CUMPROD}\n")
    checked = call("known", "check", CUMPROD)
    assert (checked.code, checked.next) == (0, "python -m gradcheck known page")
    assert f"still wrong  {CUMPROD}  " in checked.out


def test_a_record_of_the_package_that_has_changed_is_shown_and_not_to_be_written(
    call: Any, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packaged = tmp_path / "packaged"
    packaged.mkdir()
    data = document(CUMPROD)
    copied(packaged, right=data["given"], given=data["right"])
    monkeypatch.setattr("gradcheck.defects.known.installed", lambda: packaged)
    checked = call("known", "check", CUMPROD)
    assert (checked.code, checked.next) == (1, f"python -m gradcheck known show {CUMPROD}")


def test_paths_with_spaces_are_one_word_of_the_next_step(call: Any, tmp_path: Path) -> None:
    folder = tmp_path / "my records"
    folder.mkdir()
    path = copied(folder, kernels=[])
    for command, given in (
        (("kernels",), folder),
        (("fixed", CUMPROD, "--release", "99.1.0"), path),
        (("page", "--into", tmp_path / "a page.html"), tmp_path / "a page.html"),
    ):
        said = call("known", *command, "--folder", folder)
        assert said.code == 0, said.err
        assert str(given) in shlex.split(said.next.replace(",", ""))


def test_kernels_are_found_and_written(call: Any, folder: Path) -> None:
    true = next(one for one in DEFECTS if one.name == CUMPROD)
    path = copied(folder, kernels=[])
    copied(folder, "norm_euclidean-zero-order1", kernels=[{"op": "norm_euclidean", "kernel": "Sqrt", "arguments": [0]}])
    copied(folder, "tape-watch-while-stopped")
    said = call("known", "kernels")
    assert (said.code, said.next) == (0, f"git diff {folder}")
    assert "norm_euclidean-zero-order1  no kernel by itself\n1 of 2 with a kernel, 2 files written" in said.out
    assert known.read(path) == (true,)
    assert [one.kernels for one in known.load(folder)] == [true.kernels, ()]
    again = call("known", "kernels", CUMPROD, "--json").json
    assert (again["written"], again["kernels"]) == ([], {CUMPROD: ["Cumprod"]})
    assert "no known defect of this name" in call("known", "kernels", "nothing").err


def test_a_page_of_all_is_written(call: Any, folder: Path, tmp_path: Path) -> None:
    copied(folder)
    said = call("known", "page", "--into", tmp_path / "new" / "page.html", "--json")
    assert (said.code, said.json["records"], said.json["causes"]) == (0, 1, 1)
    assert f'id="{CUMPROD}"' in (tmp_path / "new" / "page.html").read_text()
    assert call("known", "page").out.startswith("1 records of 1 root causes\nwritten: known.html\n")
    (folder / "cumprod-at-zero.json").unlink()
    assert "holds no known defects" in call("known", "page", "--folder", folder).err
    copied(folder)
    refused = call("known", "page", "--into", folder)
    assert (refused.code, refused.out) == (2, "")
    assert "cannot be written" in refused.err


def test_a_folder_can_be_named(call: Any, tmp_path: Path) -> None:
    shutil.copytree(COMMITTED, tmp_path / "elsewhere")
    said = call("known", "list", "--folder", tmp_path / "elsewhere", "--json")
    assert len(said.json["defects"]) + len(said.json["tape_defects"]) == len(RECORDS)


def traits(defect: Defect) -> set[tuple[str, object]]:
    """The properties that decide how a finding becomes a record, and those of its region."""
    about, regions = defect.signature, defect.regions
    text, _, argument = defect.description.partition(" in argument ")
    special = text if text in DESCRIBED else None
    attrs = any(node.attrs for node in defect.graph.nodes if node.op == about.operation)
    return {
        *(("order", about.order), ("kind", about.kind), ("path", about.path), ("traced", about.taken.mode != "eager")),
        *(("special", special), ("argument", special and argument), ("attributes", attrs)),
        *(("wide", not attrs and not special), ("kernels", bool(defect.kernels)), ("given", defect.severity)),
        ("number type", about.taken.number_type),
        ("complex", any(given.dtype.startswith("complex") for given in defect.graph.inputs)),
        ("error", any(region.error for region in regions)),
        ("arriving", any(region.arriving for region in regions)),
    }


@slices.parametrized("defect", DEFECTS, covering(traits), ids=lambda defect: defect.name)
def test_every_committed_defect_could_have_been_added(call: Any, written: Any, folder: Path, defect: Defect) -> None:
    said = call("known", "add", written(defect.name), *WORDS, "--name", "one")
    if said.code:
        assert "give --wide" in said.err
        assert call("known", "add", written(defect.name), *WORDS, "--name", "one", "--wide").code == 0
    (made,) = known.load(folder)
    for mine, theirs in zip(made.right, defect.right, strict=True):
        assert mine == pytest.approx(theirs, rel=CLOSE, abs=CLOSE)
    assert call("known", "check").code == 0
