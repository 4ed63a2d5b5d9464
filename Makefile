# Each command sets up what it needs in .venv, from the locked files in requirements/; again at once when nothing changed.
PYTHON ?= python3
ARGS ?=
BIN := .venv/bin
OLD_PYTHON := sluicegate needs Python 3.11 or newer; choose one with PYTHON=, as in: make run PYTHON=python3.12

.PHONY: help run test test-clients test-all check fix coverage bench lock users developers servers clients peers
.DEFAULT_GOAL := help

help:  ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: users  ## the gateway, and a small real model beside it (ARGS='--help' for options)
	@$(BIN)/python examples/local_model/run.py $(ARGS)

test: developers servers  ## the whole test suite (ARGS='tests/gateway -k name' for a part of it)
	$(BIN)/python -m pytest $(ARGS)

test-clients: clients  ## a gateway against the client libraries people use (needs Node.js; ARGS='-k openai-1' for one)
	$(BIN)/python -m pytest tests/clients/every_client.py $(ARGS)

test-all: test test-clients  ## both

check: developers  ## lint, format, types and import contracts
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

fix: developers  ## let ruff mend what it can
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

coverage: developers servers  ## the tests, with what they leave uncovered
	$(BIN)/python -m pytest --cov --cov-report=term-missing $(ARGS)

bench: developers  ## what the gateway adds to a request
	$(BIN)/python benchmarks/overhead.py $(ARGS)

lock: developers  ## write requirements/*.txt from pyproject.toml (ARGS=--upgrade for newer versions)
	$(BIN)/python requirements/lock.py $(ARGS)

users developers:
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("$(OLD_PYTHON)")'
	@$(PYTHON) requirements/install.py $@

servers: developers
	@$(BIN)/python requirements/system.py

peers: developers
	@$(PYTHON) requirements/install.py peers

clients: developers
	@$(PYTHON) requirements/install.py clients
