# Every target does its own set-up in .venv; a stamp there keeps it from being repeated until pyproject.toml changes.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check

.DEFAULT_GOAL := help
.NOTPARALLEL:
.DELETE_ON_ERROR:
.PHONY: help demo live test lint format types tables unit versions browser mutate bench peers clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(VENV)/.demo-ready ## run the demonstration
	$(BIN)/fsm-engine demo
	@echo 'To watch it in a browser: make live'

live: $(VENV)/.demo-ready ## serve the demonstration's live page
	$(BIN)/fsm-engine serve --demo

test: lint types tables unit versions ## run every check: lint, types, tables, tests with branch coverage, other Pythons

lint: $(VENV)/.test-ready ## check style and layout
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

format: $(VENV)/.test-ready ## lay the code out and mend what can be mended
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

types: $(VENV)/.test-ready ## check types with mypy and pyright
	$(BIN)/mypy
	$(BIN)/pyright

tables: $(VENV)/.test-ready ## check the lifecycles, and that their diagrams are current
	$(BIN)/fsm-engine check --strict
	$(BIN)/fsm-engine diagram --check

# Not `pytest --cov`: pytest loads the project's own plugin, and the project with it, before that begins to measure.
unit: $(VENV)/.test-ready browser ## run the tests alone
	$(BIN)/coverage run -m pytest --fsm-coverage --fsm-coverage-fail-under=100
	$(BIN)/coverage report

versions: $(VENV)/.test-ready ## run the tests on the other supported versions of Python
	$(BIN)/python tools/versions.py

# The tests of the live page drive the system's Chromium, which no Python package brings along.
browser:
	@for name in $$FSM_ENGINE_CHROMIUM chromium chromium-browser google-chrome google-chrome-stable; do \
	    if command -v "$$name" >/dev/null; then exit 0; fi; \
	done; \
	if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	    apt-get update --quiet && apt-get install --yes --quiet chromium; \
	else \
	    echo "The browser tests need Chromium: install it (Debian: apt-get install chromium)," >&2; \
	    echo "or name its program in FSM_ENGINE_CHROMIUM." >&2; exit 1; \
	fi

mutate: $(VENV)/.test-ready ## show that the tests notice changes to tables and code (about ten minutes)
	$(BIN)/python tools/mutate_tables.py
	$(BIN)/python tools/mutate_code.py

bench: $(VENV)/.test-ready ## measure what an invocation costs
	$(BIN)/python benchmarks/overhead.py

peers: $(VENV)/.test-ready ## measure other libraries beside it (large downloads into .bench)
	$(BIN)/python benchmarks/overhead.py --peers

clean: ## remove what the targets made
	rm -rf $(VENV) .versions .bench build dist *.egg-info .coverage .coverage.* htmlcov
	rm -rf .hypothesis .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(None if sys.version_info >= (3, 11) else "Python 3.11 or later is needed: make PYTHON=python3.x")'
	$(PYTHON) -m venv $(VENV)

$(VENV)/.demo-ready: pyproject.toml | $(BIN)/python
	$(INSTALL) --editable '.[cli,server]'
	touch $@

# The tests' set-up contains the demo's.
$(VENV)/.test-ready: pyproject.toml | $(BIN)/python
	$(INSTALL) --editable '.[dev]'
	touch $@ $(VENV)/.demo-ready
