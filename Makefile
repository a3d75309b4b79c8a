# Paddock. `make run` starts everything on this machine; `make test` checks everything. `make help` lists the rest.
SHELL := /bin/sh
PYTHON ?= python3
PORT ?= 8000
VENV := .venv
BIN := $(VENV)/bin
CARGO ?= cargo
export PORT

.PHONY: help run test deps native lint advisories lock perf nightly coverage compare conformance quoting differential suites corpora attack truth renewals package clean

help: ## what can be made
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

run: $(VENV)/run.stamp native ## start the panel, its worker and its scheduler here (PORT=8000, PADDOCK_HOME=.paddock)
	@exec $(BIN)/python manage.py run --port $(PORT)

conformance: $(VENV)/dev.stamp native ## compare every server on generated sites (500 x 100 requests)
	@exec $(BIN)/python -m tests.suites.conformance

quoting: $(VENV)/dev.stamp native ## write 20,000 hostile values into every field for every server and read them back
	@exec $(BIN)/python -m tests.suites.conformance.quoting

differential: $(VENV)/dev.stamp native ## compare gallop with the real nginx (100,000 requests; DIFFERENTIAL_NGINX=path)
	@exec $(BIN)/python -m tests.suites.differential

compare: native ## measure gallop beside every web server installed (CASES=http1,php; COMPARE_NGINX=path)
	@cd native/benches && exec $(PYTHON) -m compare $(if $(CASES),--cases $(CASES))

attack: $(VENV)/dev.stamp native ## attack the panel and gallop for a long time: permissions, hostile values, floods, paths, races
	@exec $(BIN)/python -m tests.suites.attack

truth: $(VENV)/dev.stamp native ## compare the panel's words with an observer's under random faults (MINUTES=30, SEED=random; needs root)
	@exec $(BIN)/python -m tests.suites.truth $(if $(MINUTES),--minutes $(MINUTES)) $(if $(SEED),--seed $(SEED))

renewals: $(VENV)/dev.stamp ## renew many certificates in one night, also beside killed processes (KILLS=0, HOSTS=10, SITES=30, SEED=random)
	@exec $(BIN)/python -m tests.suites.renewals $(if $(KILLS),--kills $(KILLS)) $(if $(HOSTS),--hosts $(HOSTS)) $(if $(SITES),--sites $(SITES)) $(if $(SEED),--seed $(SEED))

suites: $(VENV)/dev.stamp native ## run the short presets of the benchmark suites and print their tables (needs root)
	@exec $(BIN)/python -m tests.suites.benchmark_suites

corpora: $(VENV)/dev.stamp ## download published configurations (Debian 12, PyPI), read and map them
	@exec $(BIN)/python -m tests.suites.corpora

test: ## install what the tests need, then run all of them
	@scripts/deps.sh test
	@$(MAKE) --no-print-directory $(VENV)/dev.stamp native
	@exec $(BIN)/python scripts/check.py

native: ## build the bundled web server
	@command -v $(CARGO) >/dev/null || { echo "make: $(CARGO) is missing: gallop is built with Rust. Install a current stable toolchain (https://rustup.rs), then run make again." >&2; exit 1; }
	@command -v cc >/dev/null || { echo "make: a C compiler is missing. On Debian, as root: apt-get install gcc libc6-dev; then run make again." >&2; exit 1; }
	@echo "==> native server (native/target/release/gallop)"
	@cd native && $(CARGO) build --release --locked

lint: $(VENV)/dev.stamp ## ruff, mypy, clippy, migrations: the quick checks
	@exec $(BIN)/python scripts/check.py lint

advisories: $(VENV)/dev.stamp ## look for published weaknesses of the Rust and Python packages (needs cargo-audit and a network)
	@command -v cargo-audit >/dev/null || { echo "cargo-audit is missing: cargo install --locked cargo-audit" >&2; exit 1; }
	@cd native && $(CARGO) audit --deny warnings
	@cd native/fuzz && $(CARGO) audit --deny warnings
	@$(BIN)/uv tool run --quiet pip-audit@2.10.1 --strict --disable-pip -r requirements.txt -r requirements-dev.txt

package: $(VENV)/run.stamp native ## write the Debian packages paddock and gallop to build/
	@exec $(BIN)/python scripts/package.py

nightly: $(VENV)/dev.stamp native ## look for new mistakes with new seeds for two hours (NIGHTLY="--minutes 20 --seed 4711")
	@exec $(BIN)/python scripts/nightly.py $(NIGHTLY)

coverage: $(VENV)/dev.stamp native ## run the Python tests once more and list the lines that none of them reaches
	@exec $(BIN)/python -m pytest -q -n auto --dist loadscope --ignore=tests/suites/browser --cov --cov-report=term

perf: $(VENV)/dev.stamp native ## benchmarks of the panel itself
	@exec $(BIN)/python -m tests.suites.perf

lock: $(VENV)/dev.stamp ## write requirements*.txt anew from requirements*.in
	$(BIN)/uv pip compile -q --upgrade --generate-hashes --python-version 3.11 --no-header --no-emit-index-url requirements.in -o requirements.txt
	$(BIN)/uv pip compile -q --upgrade --generate-hashes --python-version 3.11 --no-header --no-emit-index-url requirements-dev.in -o requirements-dev.txt

clean: ## remove what was built here; never touches PADDOCK_HOME
	rm -rf $(VENV) native/target tests/artifacts

$(VENV)/bin/python:
	@scripts/deps.sh venv
	@echo "==> virtual environment ($(VENV))"
	@$(PYTHON) -m venv $(VENV)

# The lock files name every package, so nothing is left to resolve: a release of tomorrow changes no installation.
$(VENV)/run.stamp: requirements.txt | $(VENV)/bin/python
	@echo "==> Python packages (requirements.txt, checked by hash)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes --no-deps -r requirements.txt
	@$(BIN)/python -m pip --disable-pip-version-check check
	@touch $@

$(VENV)/dev.stamp: requirements.txt requirements-dev.txt | $(VENV)/bin/python
	@echo "==> Python packages for the tests (requirements-dev.txt, checked by hash)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes --no-deps -r requirements-dev.txt
	@$(BIN)/python -m pip --disable-pip-version-check check
	@touch $@ $(VENV)/run.stamp
