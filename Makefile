# Everything runs in .venv, which is made when it is first needed.
# Another interpreter: make test PYTHON=python3.12

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
MINUTES ?= 30
MADE := $(VENV)/made
INSTALLED := $(VENV)/installed
# What the demo needs alone, which is less to fetch.
INSTALLED_DEMO := $(VENV)/installed-demo

.PHONY: help demo test soak check bench fmt records docs clean

help: ## what can be made
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 10

$(MADE):
	@$(PYTHON) -c 'import sys; sys.exit(None if sys.version_info >= (3, 11) else "Duraton needs Python 3.11 or later: make ... PYTHON=python3.12")'
	$(PYTHON) -m venv $(VENV)
	@touch $(MADE)

$(INSTALLED): pyproject.toml | $(MADE)
	@echo "installing into $(VENV), with what tests need, once"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	@touch $(INSTALLED)

$(INSTALLED_DEMO): pyproject.toml | $(MADE)
	@echo "installing into $(VENV), once"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[demo]'
	@touch $(INSTALLED_DEMO)

demo: $(INSTALLED_DEMO) ## real data through a workflow, with a kill -9 in the middle
	@$(BIN)/python examples/demo/demo.py $(ARGS)

test: $(INSTALLED) ## all tests; those on a real Kafka where one can be started
	$(BIN)/python -m pytest -rs $(ARGS)

soak: $(INSTALLED) ## random programs and crashes for MINUTES (30), and what broke
	DURATON_TEST_EXAMPLES=5 $(BIN)/python tests/properties/soak.py --minutes $(MINUTES) $(ARGS)

check: $(INSTALLED) ## lint, format, types, and the rules of the house
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m pytest -q tests/house

bench: $(INSTALLED) ## the speeds that the design asks for, printed and added to the history
	$(BIN)/python bench/run.py $(ARGS)

fmt: $(INSTALLED) ## format, and mend what the linter can
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

records: $(INSTALLED) ## after a record changed: draft its schema, write its golden bytes
	$(BIN)/python -m duraton_schemas.author --redraft
	$(BIN)/python scripts/write_golden.py

docs: $(INSTALLED) ## the pages that are written from the code
	$(BIN)/python scripts/write_errors_page.py

clean: ## the environment and what tools left behind
	rm -rf $(VENV) build *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
