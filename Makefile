# Each target sets up what it needs. `make` alone lists them.
PYTHON ?= python3.13
BIN := .venv/bin
SHELL := /bin/bash
.DEFAULT_GOAL := help
.PHONY: help setup demo test check e2e lock clean

help: ## list the targets
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 10

setup: .venv/.ready ## make .venv with exactly what requirements.lock names (Python 3.13; 5 GB, some minutes)

.venv/.ready: requirements.lock
	@command -v $(PYTHON) >/dev/null || { echo "error: $(PYTHON) not found. Fix: install Python 3.13, or name it: make PYTHON=/path/to/python3.13 $(MAKECMDGOALS)" >&2; exit 2; }
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --disable-pip-version-check --progress-bar off -r requirements.lock
	@touch $@

demo: .venv/.ready ## train, be killed, resume and judge the run, on this machine alone
	$(BIN)/python -m infra laptop --stack local --output build/demo --fresh

test: .venv/.ready ## all tests that need no cluster
	$(BIN)/python -m pytest -m "not e2e"

check: .venv/.ready ## formatting, lint, types, import rules, documents against code
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/basedpyright
	$(BIN)/python -m pytest -q tests/test_import_rules.py tests/test_docs.py tests/test_cases.py

e2e: .venv/.ready ## the stack on a real cluster: needs pulumi, and a kubeconfig that reaches Kubernetes with KubeRay
	$(BIN)/python -m pytest -m e2e tests/e2e tests/engine

lock: ## resolve requirements.lock again from the requirements files (needs uv)
	uv pip compile --universal --python-version 3.13 --generate-hashes --no-emit-index-url --no-header --no-annotate \
	  requirements.txt tests/requirements.txt -o requirements.lock

clean: ## remove what runs and tests left (not .venv)
	rm -rf build .pytest_cache .ruff_cache
