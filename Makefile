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
	@echo "make demo       record demonstrations, train, and run shared autonomy in the kitchen (eleven minutes)"
	@echo "make test       run the test suite (MAC_DATA=folder adds the tests on real data)"
	@echo "make test-slow  run the tests marked slow: full-size networks, a million steps of the filter, all malformed inputs"
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
# resumes; once finished, it shows the tables again. First kitchen-mixed with a behaviour-cloning operator, then
# kitchen-intent with an expert that wants four tasks which no policy is told.
DEMO_MIXED := task=kitchen-mixed runs=$(DEMO)
DEMO_INTENT := task=kitchen-intent runs=$(DEMO)
DEMO_DATA := data.source=scripted data.episodes=300
DEMO_TRAIN := MINARI_DATASETS_PATH='$(abspath $(DEMO)/data)' $(BIN)/python scripts/train_policy.py
DEMO_ROLL := $(BIN)/python scripts/shared_autonomy.py

demo: $(STAMP)
	$(DEMO_TRAIN) $(DEMO_MIXED) $(DEMO_DATA)
	$(DEMO_ROLL) $(DEMO_MIXED) operator_dims=4 episodes=50 out=$(DEMO)/operator-bc
	$(DEMO_TRAIN) $(DEMO_INTENT) preset=intent $(DEMO_DATA) training.steps=4000 policy=mac
	$(DEMO_TRAIN) $(DEMO_INTENT) preset=intent $(DEMO_DATA) training.steps=4000 policy=bc seed=100
	$(DEMO_ROLL) $(DEMO_INTENT) operator_dims=4 episodes=30 out=$(DEMO)/intent \
	  'arms=[operator+mac,operator+bc,mac,bc,operator+mac-told,operator]'
	@echo
	@echo "Tables, plots and videos: $(DEMO)/operator-bc and $(DEMO)/intent"

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
