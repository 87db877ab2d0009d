#!/usr/bin/env bash
# Brings what the project needs onto a Debian machine, and only what is missing; says nothing when nothing is.
#   scripts/install.sh run    what `make run` needs
#   scripts/install.sh test   that, the other servers that the tests run on, and the browser
set -euo pipefail
cd "$(dirname "$0")/.."

stage=${1:-}
case $stage in run | test) ;; *) echo "usage: $0 run|test" >&2; exit 2 ;; esac

packages=()
need() { # need "why" package...
  echo "install: ${*:2} ($1)"
  packages+=("${@:2}")
}

has_libclang() { # where bindgen looks: LIBCLANG_PATH, then LLVM's own folders; it needs clang's headers beside the library
  compgen -G "${LIBCLANG_PATH:-/nowhere}/libclang*.so*" >/dev/null && return 0
  compgen -G '/usr/lib/llvm-*/lib/libclang*.so*' >/dev/null && compgen -G '/usr/lib/llvm-*/lib/clang/*/include/stddef.h' >/dev/null
}
has_compiler() { command -v cc >/dev/null && echo '#include <stdio.h>' | cc -E -x c - >/dev/null 2>&1; }
has_venv() { command -v python3 >/dev/null && python3 -c 'import venv, ensurepip' 2>/dev/null; }

command -v cargo >/dev/null || {
  echo "install: cargo is missing. Rust comes from rustup (its stable toolchain is enough); then run this again." >&2
  exit 1
}
command -v make >/dev/null || need "runs the project's tasks" make
has_compiler || need "C compiler and headers for the module's bindings" gcc libc6-dev
has_libclang || need "reads the server's module header while building" libclang-dev
has_venv || need "Python for the tour and the tests" python3 python3-venv
command -v redis-server >/dev/null || need "the server that loads the module" redis-server
command -v redis-cli >/dev/null && command -v redis-benchmark >/dev/null || need "redis-cli and redis-benchmark" redis-tools
if [ "$stage" = test ] && [ -f package.json ]; then
  command -v node >/dev/null || need "runs the JavaScript client's tests" nodejs
  command -v npm >/dev/null || need "fetches the JavaScript client" npm
fi

if [ "$stage" = test ]; then
  command -v chromium >/dev/null && command -v chromedriver >/dev/null ||
    need "shows the gateway's pages to the tests" chromium chromium-driver fonts-dejavu-core
fi

if [ ${#packages[@]} -gt 0 ]; then
  as_root=()
  if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null || { echo "install: not root and no sudo; install these yourself: ${packages[*]}" >&2; exit 1; }
    as_root=(sudo)
  fi
  command -v apt-get >/dev/null || { echo "install: no apt-get here; install these yourself: ${packages[*]}" >&2; exit 1; }
  # Debian starts a packaged redis-server on port 6379 where an init runs; `make run` then takes the next free port.
  "${as_root[@]}" apt-get update -q
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends "${packages[@]}" </dev/null
fi

scripts/servers.sh venv
[ "$stage" = run ] || scripts/servers.sh servers
