#!/usr/bin/env bash
# Installs what is missing, builds, then scripts/serve.py starts what was asked for.
#   scripts/run.sh gateway   (make run) a server with the module, and the gateway with its page before it
#   scripts/run.sh redis     (make redis) the server alone, and a tour of it
#   PORT=…, WEB_PORT=…       their ports (default 6379 and 8080, or the next free ones)
#   TOUR_ONLY=1              end after the tour; the exit code tells whether every step came true
set -euo pipefail
cd "$(dirname "$0")/.."

what=${1:-}
case $what in redis | gateway) ;; *) echo "usage: $0 redis|gateway" >&2; exit 2 ;; esac

scripts/install.sh run
target=${CARGO_TARGET_DIR:-target}
programs=("$target/release/libpresence.so")
cargo build --release
if [ "$what" = gateway ]; then
  cargo build --profile service -p presence-gateway
  programs+=("$target/service/presence-gateway")
fi
exec .venv/bin/python scripts/serve.py "${programs[@]}"
