#!/usr/bin/env bash
# The guess: copy.deepcopy of the syntax tree of "x + y", and its pickle, are of these few nodes, whatever else a program has parsed.
#
# What happens: with executing 2.3.0 (which IPython, icecream and others use to find the expression that a frame runs) they hold the
# whole tree of the module that executing looked at last: a copy takes a thousand times as long, and a pickle has that module's names.
# ast.parse gives all names of all trees one and the same context object, ast.Load(), and executing gives every node, so that one too,
# the attribute `parent`. ast.dump and ast.unparse do not follow it: ast.parse(ast.unparse(tree)) is a copy.
set -euo pipefail

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
python3 -m venv "$scratch/venv"
"$scratch/venv/bin/python" -m pip install --quiet --disable-pip-version-check executing==2.3.0

cat > "$scratch/seen.py" <<'EOF'
import ast
import copy
import pickle
import sys
import time
from importlib.metadata import version
from pathlib import Path

import executing


def seen(when):
    tree = ast.parse("x + y", mode="eval")
    began = time.perf_counter()
    copy.deepcopy(tree)
    seconds = time.perf_counter() - began
    stored = pickle.dumps(tree)
    print(f"{when}: {len(list(ast.walk(tree)))} nodes, the pickle names the other module's variable: {b'elsewhere' in stored}")
    return seconds, len(stored)


print("executing", version("executing"))
other = Path(sys.argv[1]) / "other.py"
other.write_text("elsewhere = 1\nprint(elsewhere)\n" * 2500)
seconds, size = seen("before")
executing.Source.for_filename(str(other)).tree
slower, larger = seen("after ")
print("a copy takes more than 50 times as long:", slower > 50 * seconds)
print("a pickle has more than 50 times as many bytes:", larger > 50 * size)
EOF

seen=$("$scratch/venv/bin/python" "$scratch/seen.py" "$scratch")
echo "$seen"
diff - <(echo "$seen") <<'EOF'
executing 2.3.0
before: 7 nodes, the pickle names the other module's variable: False
after : 7 nodes, the pickle names the other module's variable: True
a copy takes more than 50 times as long: True
a pickle has more than 50 times as many bytes: True
EOF
echo "as seen before"
