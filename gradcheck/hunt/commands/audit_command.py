"""`python -m gradcheck audit`: the known defects of the operations of a function, or of a saved model."""

from __future__ import annotations

import argparse
import inspect
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gradcheck.hunt.commands import cli

AUDIT = """say which operations of a function or a saved model have known defects, or lack a derivative

TARGET is module:function, looked for from here, or the folder of a SavedModel. A function is imported and called once,
without arguments: it makes its own inputs, such as a training step on one batch. Variables that it assigns are left as
they were. Of a saved model only the definitions of its functions are read; nothing of it is run, and regions that
depend on values are "perhaps". No differences are taken.

exit codes: 0 no operation lies in the region of a known defect at an order that the code takes, 1 one or more do,
2 nothing could be audited.

example:
  python -m gradcheck audit train:step"""
FUNCTION = re.compile(r"(\w+(?:\.\w+)*):(\w+(?:\.\w+)*)")


def add(commands: Any) -> None:
    """Adds the command."""
    parser = cli.subcommand(commands, "audit", run, AUDIT)
    parser.add_argument("target", metavar="TARGET", help="module:function, or the folder of a SavedModel")


def run(options: argparse.Namespace) -> cli.CommandOutput:
    """Audits the function or saved model that was named."""
    target = Path(options.target)
    match = FUNCTION.fullmatch(options.target)
    if target.is_file():
        raise cli.CommandError(
            f"{target}: a file; a folder written by tf.saved_model.save or model.export was expected"
        )
    if match is None and not target.is_dir():
        raise cli.CommandError(
            f"TARGET was {options.target!r}; expected module:function, or the folder of a SavedModel"
        )
    cli.tensorflow()
    from gradcheck.audit import audit, audit_saved_model

    try:
        result = audit_saved_model(target) if match is None else audit(_function(*match.groups()))
    except (ValueError, TypeError, RuntimeError) as error:
        raise cli.CommandError(str(error)) from None
    except SystemExit as error:
        raise cli.CommandError(
            f"{options.target} ended the process (SystemExit: {error}) before its operations could be audited; let it "
            "return instead"
        ) from None
    if not result.looked_at:
        raise cli.CommandError(
            f"{options.target} takes no derivative, and returns no tensor, of an operation: nothing was audited; "
            "let it return its loss"
        )
    names = [one.defect.name for operation in result.operations for one in operation.defects]
    compared = "gradcheck.check(f, x)"
    if match is not None and result.derives:
        compared = f"print(gradcheck.explain({match[2]})), or in a test gradcheck.assert_step({match[2]})"
    step = f"python -m gradcheck known show {names[0]}" if names else f"compare with {compared}"
    return cli.CommandOutput("audit", tuple(str(result).split("\n")), _data(result), step, 1 if result.wrong else 0)


def _function(module: str, name: str) -> Callable[..., Any]:
    """The function of a name in the module; raises CommandError unless it can be called without arguments."""
    try:
        found: Any = cli.imported(module)
    except (Exception, SystemExit) as error:  # the module is a user's code
        advice = '; put what it runs below `if __name__ == "__main__":`' if isinstance(error, SystemExit) else ""
        advice += f"; write {module.removesuffix('.py')}:{name}" if module.endswith(".py") else ""
        raise cli.CommandError(f"{module}: cannot be imported ({type(error).__name__}: {error}){advice}") from error
    for part in name.split("."):
        if not hasattr(found, part):
            raise cli.CommandError(f"{module} has no {name}; name a function of it as {module}:function")
        found = getattr(found, part)
    if not callable(found):
        raise cli.CommandError(f"{module}:{name} is of type {type(found).__name__}; a function was expected")
    wanted = [one.name for one in inspect.signature(found).parameters.values() if _required(one)]
    if wanted:
        raise cli.CommandError(
            f"{module}:{name} takes {', '.join(wanted)}; a function without arguments was expected: write one that "
            f"makes them and calls {name}, or call gradcheck.audit({name}, ...) in Python"
        )
    function: Callable[..., Any] = found
    return function


def _required(one: inspect.Parameter) -> bool:
    return one.default is one.empty and one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD)


def _data(result: Any) -> dict[str, Any]:
    """The result as data for JSON."""
    operations = [
        {
            "kernel": one.kernel,
            "place": None if one.place is None else str(one.place),
            "where": one.where,
            "count": one.count,
            "defects": [
                {
                    "name": each.defect.name,
                    "title": each.defect.title,
                    "order": each.order,
                    "inside": each.inside,
                    "severity": str(each.defect.severity),
                    "upstream": each.defect.upstream,
                    "remedy": each.defect.remedy,
                }
                for each in one.defects
            ],
            "lost": [{"order": each.order, "outcome": each.outcome, "why": each.why} for each in one.lost],
        }
        for one in result.operations
    ]
    seen = {"looked_at": result.looked_at, "kernels": result.kernels, "not_seen": list(result.notes)}
    return {"name": result.name, "order": result.order, "operations": operations, **seen}
