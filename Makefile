# Everything here works offline once `make setup` has run, in a path with spaces, and any number of times.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
PY := .venv/bin/python
# Every command and worker would compile the whole program again.
unexport PYTHONDONTWRITEBYTECODE
# More processes than cores, since they mostly wait; one Pulsar serves them all. The tests of one file stay together,
# and those of Spark (tests/conftest.py); long files come first, unit tests fill what is left.
PYTEST := $(PY) -m pytest -n 5 --dist loadfile --no-loadscope-reorder --durations=25
# Folders with tests that run alone: the others need not be read again.
ALONE := tests/acceptance tests/browser tests/exploration tests/integration tests/simulation
.DEFAULT_GOAL := help
.PHONY: help setup demo test test-all lint check clean

help: ## what there is
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-8s %s\n", $$1, $$2}' Makefile

setup: ## Python environment in .venv, Java and Maven (installed where that is allowed, named where not)
	@bash scripts/setup.sh

demo: setup ## the whole service on this machine: local stack, workers, nine tasks, a report
	@$(PY) -m fairlane demo

test: setup ## every law and behavior, real Pulsar and Redis included: some nine minutes
	@FAIRLANE_TEST_SEEDS=25 FAIRLANE_TEST_LAWS=0.2 $(PYTEST) -m "not alone and not thorough"
	@FAIRLANE_TEST_SEEDS=25 FAIRLANE_TEST_LAWS=0.2 $(PY) -m pytest $(ALONE) -m "alone and not thorough"

test-all: setup ## all tests: a thousand seeds, every server, more deaths, more of Spark: some half an hour
	@$(PYTEST) -m "not alone"
	@$(PY) -m pytest $(ALONE) -m alone

lint: setup ## lint, format, strict types, import rule
	@$(PY) -m ruff check .
	@$(PY) -m ruff format --check .
	@$(PY) -m mypy
	@$(PY) -m mypy benchmarks/peers
	@$(PY) -c "from importlinter.cli import lint_imports_command; lint_imports_command()"

check: lint ## the same, lines of code by folder, and the unit tests: a minute or two, offline
	@$(PY) -m scripts.budget
	@$(PYTEST) -q tests/unit

clean: ## caches and build leftovers; leaves .venv and the local stack alone
	@rm -rf build dist ./*.egg-info .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	@find . -name __pycache__ -not -path './.venv/*' -prune -exec rm -rf {} +
