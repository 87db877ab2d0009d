# `make` lists the tasks. make run PORT=7000; make test T="-k smoke"; CARGO_TARGET_DIR is honoured.
SHELL := /bin/bash
TARGET := $(or $(CARGO_TARGET_DIR),target)
BUILT := PRESENCE_MODULE=$(abspath $(TARGET)/release/libpresence.so) PRESENCE_GATEWAY=$(abspath $(TARGET)/debug/presence-gateway)
PYTHON := $(BUILT) .venv/bin/python
TESTS := tests
comma := ,
# Redis 8.10 takes part if somebody has built it: scripts/servers.sh redis-8.10.
ALL_SERVERS := redis-7.0,redis-8.2,valkey-8.1,valkey-9.1$(if $(wildcard target/servers/redis-8.10/redis-server),$(comma)redis-8.10)

.DEFAULT_GOAL := help
.PHONY: help run redis build gateway test test-all test-survival test-browser pytest pictures chaos profile soak bench bench-engine bench-live bench-short replay onsale lint fmt clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

run: ## install what is missing, build, start a server with the module, a gateway and a page to try it on (PORT=… WEB_PORT=…)
	@scripts/run.sh gateway

redis: ## install what is missing, build, start a server with the module alone, and show what it does (PORT=… chooses)
	@scripts/run.sh redis

build: ## the module: target/release/libpresence.so
	cargo build --release

gateway: ## the gateway: target/service/presence-gateway
	cargo build --profile service -p presence-gateway

test: ## engine tests, integration tests on the oldest and the newest server, survival on all four (T=… to pytest)
	@scripts/install.sh test
	cargo test -p presence-engine -p presence-gateway -p presence-onsale
	cargo build -p presence-onsale
	cargo build --features inject-panics
	cargo build --release
	@$(MAKE) --no-print-directory pytest

test-all: ## everything on all servers that are there, what is long at its full length
	@PRESENCE_SERVERS=$(ALL_SERVERS) PRESENCE_FULL=1 $(MAKE) --no-print-directory test

test-survival: ## stalls, crashes, failovers, moving slots, on all four servers, at full length (T=… to pytest)
	@scripts/install.sh test
	cargo build --release
	@PRESENCE_FULL=1 $(MAKE) --no-print-directory pytest TESTS=tests/survival

test-browser: ## the gateway's pages, in Chromium (T=… to pytest)
	@scripts/install.sh test
	cargo build --release
	cargo build -p presence-gateway
	@$(MAKE) --no-print-directory pytest TESTS=tests/browser

pictures: ## the pages as phone and desk show them, by day and by night: target/pictures (ARGS=--readme)
	@scripts/install.sh test
	cargo build --release
	cargo build -p presence-gateway
	$(PYTHON) scripts/screenshots.py $(ARGS)

# Most tests wait for silence, so several go at once; those that make or measure load go alone. 5: none was chosen.
pytest:
	$(PYTHON) -m pytest $(TESTS) -n 5 -m 'not alone' $(T) || [ $$? = 5 ]
	$(PYTHON) -m pytest $(TESTS) -m alone $(T) || [ $$? = 5 ]

chaos: ## what servers go through, on all four: false departures, ghosts, double announcements, each 0 (ARGS="--minutes 10")
	@scripts/install.sh test
	cargo build --release
	$(PYTHON) scripts/chaos.py $(ARGS)

MINUTES := 20
profile: ## where the time of a beat and of a batch's item goes: valgrind's callgrind, and perf (ARGS="count --members 10000000")
	@scripts/install.sh run
	cargo build --release
	$(PYTHON) scripts/profile.py $(ARGS)

soak: ## churn at a steady size, for 20 minutes (MINUTES=…): memory and lateness stay as they are, and all sums agree (ARGS=…)
	@scripts/install.sh test
	cargo build --release
	$(PYTHON) scripts/soak.py --minutes $(MINUTES) $(ARGS)

bench: bench-engine bench-live ## both: what the engine and the module cost, beside what is run instead; writes docs/benchmarks.md

bench-engine: ## the engine's own benchmarks, without a server
	cargo bench -p presence-engine

bench-live: ## on Redis 7.0 and Valkey 9.1, about 20 minutes on a quiet machine (ARGS="--only beats --servers redis-7.0")
	@scripts/install.sh test
	cargo build --release
	$(PYTHON) scripts/bench $(ARGS)

bench-short: ## the same in two minutes: whether it works, not how quick it is
	@$(MAKE) --no-print-directory bench-live ARGS="--short $(ARGS)"

replay: ## a recorded audience played fast against a server, and what it announced held against a twin (ARGS=…)
	@scripts/install.sh run
	cargo build --release
	$(PYTHON) scripts/replay.py $(ARGS)

SIZE := 200000
SECONDS := 120
GATEWAYS := 12
SERVICE := $(abspath $(TARGET)/service)
onsale: ## 200,000 viewers over 12 gateways, one of which is killed, for two minutes (SIZE=… SECONDS=… GATEWAYS=… CLUSTER=1 ARGS=…)
	@scripts/install.sh run
	cargo build --release
	cargo build --profile service -p presence-gateway -p presence-onsale
	PRESENCE_GATEWAY=$(SERVICE)/presence-gateway PRESENCE_MODULE=$(abspath $(TARGET)/release/libpresence.so) .venv/bin/python \
	  scripts/onsale.py --size $(SIZE) --seconds $(SECONDS) --gateways $(GATEWAYS) $(if $(CLUSTER),--cluster) $(ARGS)

lint: ## formatting and clippy, warnings denied
	cargo fmt --all --check
	cargo clippy --workspace --all-targets -- -D warnings

fmt: ## format the Rust code
	cargo fmt --all

clean: ## remove everything that was built or fetched
	cargo clean
	rm -rf .venv node_modules
