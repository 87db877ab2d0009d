#!/usr/bin/env bash
# make run: installs what is missing, builds, then scripts/serve.py starts a server with the module and plays the tour.
#   PORT=…        the port (default 6379 or the next free one)
#   TOUR_ONLY=1   end after the tour; the exit code tells whether every step came true
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/install.sh run
cargo build --release
exec .venv/bin/python scripts/serve.py "${CARGO_TARGET_DIR:-target}/release/libpresence.so"
