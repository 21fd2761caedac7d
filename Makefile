# Two commands on a fresh machine: `make demo` and `make test`. Both set up .venv first.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
# Real data for the tests that need it; without such a folder they are skipped and say so.
TEST_DATA := $(or $(MAC_DATA),$(wildcard $(abspath ../shared/data)))

.PHONY: help setup demo test test-slow coverage check fmt clean

help:
	@echo "make setup      create .venv with the pinned versions"
	@echo "make demo       set up, then show what the project does"
	@echo "make test       set up, then run the test suite (MAC_DATA=folder adds the tests on real data)"
	@echo "make test-slow  the tests marked slow: full-size networks"
	@echo "make coverage   the test suite with line coverage of mac_policy"
	@echo "make check      formatting, lint and types"
	@echo "make fmt        format and fix what can be fixed"
	@echo "make clean      remove .venv and caches"

$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; v = sys.version_info; sys.exit(0 if v >= (3, 10) else f"mac_policy needs Python 3.10 or newer, this is {v[0]}.{v[1]}: run make PYTHON=/path/to/python3.11")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	@touch $(STAMP)

setup: $(STAMP)

demo: $(STAMP)
	$(BIN)/python scripts/mask_distribution.py n=12
	@echo
	@echo "This is the engine's part. To train policies: $(BIN)/python scripts/train_policy.py task=fork (or task=kitchen-mixed)."
	@echo "Shared autonomy on the kitchen is still to come."

test: $(STAMP)
	MAC_DATA='$(TEST_DATA)' $(BIN)/python -m pytest

test-slow: $(STAMP)
	MAC_DATA='$(TEST_DATA)' $(BIN)/python -m pytest -m slow

coverage: $(STAMP)
	MAC_DATA='$(TEST_DATA)' $(BIN)/python -m pytest --cov --cov-report=term-missing:skip-covered

check: $(STAMP)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

fmt: $(STAMP)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache
