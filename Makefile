# Sluicegate. `make` alone lists the targets.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
# `check test` share Cargo's lock on the target directory: one after the other, also under -j.
.NOTPARALLEL:

CARGO ?= cargo
# A shell that has not read rustup's profile still finds the toolchain.
export PATH := $(PATH):$(HOME)/.cargo/bin

.PHONY: help
help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: run
run: setup ## Run the gateway at 127.0.0.1:8080, before a built-in program
	$(CARGO) run --release --locked -p sluicegate-cli -- run

.PHONY: flash-sale
flash-sale: setup ## Sell 10 items to 500 buyers in 5 s, step by step (target/flash-sale); FLASH_SALE adds options
	$(CARGO) run --profile test --locked -p sluicegate-flash-sale -- run $(FLASH_SALE)

.PHONY: test
test: setup-test ## Run all tests and documentation examples
	$(CARGO) test --workspace --exclude sluicegate-bench --locked

.PHONY: bench
bench: bench-engine bench-rust bench-cluster bench-gateway bench-server bench-operate bench-adaptive bench-overload ## Run every benchmark

.PHONY: bench-engine
bench-engine: setup ## Measure the engine beside its peers (target/bench/engine.json)
	$(CARGO) run --profile bench --locked -p sluicegate-bench -- engine

.PHONY: bench-rust
bench-rust: setup ## Measure attribute, tower layer and streams (target/bench/rust.json)
	$(CARGO) run --profile bench --locked -p sluicegate-bench -- rust

.PHONY: bench-cluster
bench-cluster: setup-bench ## Measure limits shared through Redis (target/bench/cluster.json)
	$(CARGO) run --profile bench --locked -p sluicegate-bench -- cluster

.PHONY: bench-gateway
bench-gateway: setup-bench ## Measure the gateway beside nginx (target/bench/gateway.json)
	$(CARGO) build --release --locked -p sluicegate-cli
	$(CARGO) run --profile bench --locked -p sluicegate-bench -- gateway

.PHONY: bench-server
bench-server: setup-bench ## Measure the decision server beside empty services (target/bench/server.json)
	@scripts/redis-cell
	@scripts/throttlecrab
	$(CARGO) build --release --locked -p sluicegate-cli
	$(CARGO) run --profile bench --locked -p sluicegate-bench -- server

.PHONY: bench-operate
bench-operate: setup-bench ## Measure what watching and reloading cost (target/bench/operate.json)
	$(CARGO) build --release --locked -p sluicegate-cli
	$(CARGO) run --profile bench --locked -p sluicegate-bench -- operate

.PHONY: bench-overload
bench-overload: setup ## Measure the gateway before a program that is asked for more than it can do (target/bench/overload.json)
	$(CARGO) build --release --locked -p sluicegate-cli
	$(CARGO) run --profile bench --locked -p sluicegate-bench -- overload

.PHONY: bench-adaptive
bench-adaptive: setup ## Play overload before ours and other laws (docs/adaptive-bench.md, docs/adaptive)
	$(CARGO) run --profile test --locked -p sluicegate-adaptive --example overload

.PHONY: bench-adaptive-seeds
bench-adaptive-seeds: setup ## Play every gate of ours on twenty other sets of seeds, and print what comes of it (minutes)
	$(CARGO) run --profile test --locked -p sluicegate-adaptive --example overload -- seeds

.PHONY: fuzz
fuzz: setup ## Feed the readers of the decision server random input, FUZZ_SECONDS each (needs nightly)
	@scripts/fuzz

.PHONY: check
check: setup-check ## Formatting, lints, documentation, READMEs, licences; warnings are errors
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps --locked
	@scripts/readmes
	@scripts/deny

.PHONY: fmt
fmt: setup-check ## Format the code
	$(CARGO) fmt --all

.PHONY: doc
doc: setup ## Build the documentation (target/doc)
	$(CARGO) doc --workspace --no-deps --locked

.PHONY: book
book: setup ## Build the manual as a book (target/book)
	@scripts/book

.PHONY: pictures
pictures: setup ## Draw the manual's pictures anew (docs/pictures)
	$(CARGO) run --profile test --locked -p sluicegate-manual

.PHONY: package
package: setup ## Build the release archive: program, manual, completions, units (target/package)
	@scripts/package

.PHONY: clean
clean: ## Remove everything that was built
	$(CARGO) clean

.PHONY: setup setup-test setup-bench setup-check
setup:
	@scripts/setup
setup-test:
	@scripts/setup test
setup-bench:
	@scripts/setup bench
setup-check:
	@scripts/setup check
