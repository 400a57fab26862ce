#!/usr/bin/env bash
# The project's checks: its tests, and a hunt for wrong derivatives of its own operations in random graphs.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
python -m pytest test_activations.py --gradcheck-ops='fused_*' "$@"
