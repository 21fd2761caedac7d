# Two commands on a fresh machine: `make demo` and `make test`. Both set up .venv first.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
# Folder of real data. Tests that need it are skipped without it.
TEST_DATA := $(or $(MAC_DATA),$(wildcard $(abspath ../shared/data)))
DEMO := runs/demo

.PHONY: help setup demo test test-slow coverage check docs fmt clean

help:
	@echo "make setup      create .venv with everything installed, in pinned versions"
	@echo "make demo       record demonstrations, train, and run shared autonomy in the kitchen (ten minutes)"
	@echo "make test       run the test suite (MAC_DATA=folder adds the tests on real data)"
	@echo "make test-slow  run the tests marked slow: full-size networks"
	@echo "make coverage   run the test suite and report line coverage of mac_policy"
	@echo "make check      check formatting, lint and types"
	@echo "make docs       build the documentation site in site/"
	@echo "make fmt        format the code and apply the linter's fixes"
	@echo "make clean      remove .venv and caches"

$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; v = sys.version_info; sys.exit(0 if v >= (3, 10) else f"mac_policy needs Python 3.10 or newer, this is {v[0]}.{v[1]}: run make PYTHON=/path/to/python3.11")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[all,dev,docs]'
	@touch $(STAMP)

setup: $(STAMP)

# Scripted demonstrations, in a store of the demo's own, so that nothing is downloaded. If interrupted, the same command
# resumes; once finished, it shows the tables again.
DEMO_TASK := kitchen-mixed
DEMO_OPTIONS := task=$(DEMO_TASK) runs=$(DEMO)

demo: $(STAMP)
	MINARI_DATASETS_PATH='$(abspath $(DEMO)/data)' $(BIN)/python scripts/train_policy.py $(DEMO_OPTIONS) data.source=scripted data.episodes=300
	$(BIN)/python scripts/shared_autonomy.py $(DEMO_OPTIONS) operator_dims=4 episodes=50 out=$(DEMO)/operator-bc
	$(BIN)/python scripts/shared_autonomy.py $(DEMO_OPTIONS) operator_dims=4 episodes=50 operator=expert out=$(DEMO)/operator-expert
	@echo
	@echo "Tables, plots and videos: $(DEMO)/operator-bc and $(DEMO)/operator-expert"

# One process per core, one thread each. The tests of a file run in the same process because they share fixtures.
test: $(STAMP)
	MAC_DATA='$(TEST_DATA)' OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto --dist loadfile

test-slow: $(STAMP)
	MAC_DATA='$(TEST_DATA)' $(BIN)/python -m pytest -m slow

coverage: $(STAMP)
	MAC_DATA='$(TEST_DATA)' $(BIN)/python -m pytest --cov --cov-report=term-missing:skip-covered

check: $(STAMP)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

# Building needs no network, and the built pages refer to nothing outside of their folder.
docs: $(STAMP)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "site/index.html"

fmt: $(STAMP)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean:
	rm -rf $(VENV) site .pytest_cache .mypy_cache .ruff_cache
