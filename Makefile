# Build targets of Sluicegate; `make` lists them.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
# Targets share Cargo's lock on the target directory: run them sequentially, also with -j.
.NOTPARALLEL:

CARGO ?= cargo
# Finds the toolchain in shells without rustup's profile.
export PATH := $(PATH):$(HOME)/.cargo/bin

.PHONY: help
help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: run
run: setup ## Run the gateway on 127.0.0.1:8080 with a built-in demo upstream
	$(CARGO) run --release --locked -p sluicegate-cli -- run

.PHONY: flash-sale
flash-sale: setup ## Run the flash sale example in six steps (target/flash-sale); FLASH_SALE adds options
	$(CARGO) run --profile test --locked -p sluicegate-flash-sale -- run $(FLASH_SALE)

.PHONY: test
test: setup-test ## Run all tests and documentation examples
	@scripts/test --workspace --exclude sluicegate-bench --locked

.PHONY: quick
quick: setup-check ## Lint and test the crates with uncommitted changes (CRATES="engine net" names others)
	@scripts/quick $(CRATES)

.PHONY: bench
bench: bench-engine bench-rust bench-cluster bench-gateway bench-server bench-operate bench-adaptive bench-overload ## Run all benchmarks

.PHONY: bench-engine
bench-engine: setup ## Measure the engine against other libraries (target/bench/engine.json)
	$(CARGO) run --profile bench --locked -p sluicegate-bench -- engine

.PHONY: bench-rust
bench-rust: setup ## Measure the attribute, the tower layer and streams (target/bench/rust.json)
	$(CARGO) run --profile bench --locked -p sluicegate-bench -- rust

.PHONY: bench-cluster
bench-cluster: setup-bench ## Measure limits shared through Redis (target/bench/cluster.json)
	$(CARGO) run --profile bench --locked -p sluicegate-bench -- cluster

.PHONY: bench-gateway
bench-gateway: setup-bench ## Measure the gateway against nginx (target/bench/gateway.json)
	$(CARGO) build --release --locked -p sluicegate-cli
	$(CARGO) run --profile bench --locked -p sluicegate-bench -- gateway

.PHONY: bench-server
bench-server: setup-bench ## Measure the decision server against minimal services (target/bench/server.json)
	@scripts/redis-cell
	@scripts/throttlecrab
	$(CARGO) build --release --locked -p sluicegate-cli
	$(CARGO) run --profile bench --locked -p sluicegate-bench -- server

.PHONY: bench-operate
bench-operate: setup-bench ## Measure the cost of monitoring and rule reloads (target/bench/operate.json)
	$(CARGO) build --release --locked -p sluicegate-cli
	$(CARGO) run --profile bench --locked -p sluicegate-bench -- operate

.PHONY: bench-overload
bench-overload: setup ## Measure the gateway under overload (target/bench/overload.json)
	$(CARGO) build --release --locked -p sluicegate-cli
	$(CARGO) run --profile bench --locked -p sluicegate-bench -- overload

.PHONY: bench-adaptive
bench-adaptive: setup ## Simulate overload with several control laws (docs/adaptive-bench.md, docs/adaptive)
	$(CARGO) run --profile test --locked -p sluicegate-adaptive --example overload

.PHONY: bench-adaptive-seeds
bench-adaptive-seeds: setup ## Simulate overload with twenty other sets of seeds and print the results (minutes)
	$(CARGO) run --profile test --locked -p sluicegate-adaptive --example overload -- seeds

.PHONY: fuzz
fuzz: setup ## Fuzz the decoders of untrusted input, FUZZ_SECONDS each (needs nightly)
	@scripts/fuzz

.PHONY: check
check: setup-check ## Check formatting, lints, documentation, prose and licences; warnings are errors
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps --locked
	@scripts/check-readmes
	@scripts/check-prose
	@scripts/deny

.PHONY: fmt
fmt: setup-check ## Format the code
	$(CARGO) fmt --all

.PHONY: doc
doc: setup ## Build the API documentation (target/doc)
	$(CARGO) doc --workspace --no-deps --locked

.PHONY: book
book: setup ## Build the manual with mdBook (target/book)
	@scripts/book

.PHONY: pictures
pictures: setup ## Generate the pictures of the manual (docs/pictures)
	$(CARGO) run --profile test --locked -p xtask

.PHONY: screenshot
screenshot: setup-test ## Take the README's screenshot of the dashboard under load (docs/images/dashboard.png)
	$(CARGO) test --locked -p sluicegate-cli --test integration -- --ignored readme_screenshot

.PHONY: package
package: setup ## Build the release archive: program, man pages, completions, systemd units (target/package)
	@scripts/package

.PHONY: clean
clean: ## Remove the build output
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
