# `make demo` and `make test` need python3 (3.11 or later) and make; they set up everything else themselves.

PYTHON ?= python3
VENV ?= .venv
PYTEST_ARGS ?=
DEMO_ARGS ?=
BENCH_ARGS ?=
# Minutes after which `make real` begins nothing more.
MINUTES ?= 45
# As many workers as the machine has processors, within reason: a worker costs its start-up.
WORKERS ?= -n auto --maxprocesses 8 --dist loadgroup

# Hundreds of processes start in a run of the tests: without bytecode kept, each would compile what it imports.
unexport PYTHONDONTWRITEBYTECODE

BIN := $(VENV)/bin
# Quiet, but an error still shows. `compat` keeps the editable install visible to type checkers elsewhere.
PIP_INSTALL := $(BIN)/python -m pip -qq --disable-pip-version-check install
INSTALL := $(PIP_INSTALL) --config-settings editable_mode=compat -e

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.NOTPARALLEL:
.PHONY: help demo test lint types bench docs real build lock clean

help: ## list the targets
	@echo "rbank-es: make TARGET [PYTHON=python3.12] [VENV=.venv]"
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/  \1\t\2/p' $(firstword $(MAKEFILE_LIST)) | expand -t 10

demo: $(VENV)/.warmed ## watch an agent learn, in a real sandbox with a script for a model, and see what its bank holds
	@echo "==> Running the demo"
	@$(BIN)/rbank-es demo $(DEMO_ARGS)

test: $(VENV)/.installed-dev $(VENV)/.warmed ## run the tests (PYTEST_ARGS='-m slow' for the slow ones)
	@echo "==> Running the tests"
	@$(BIN)/pytest -q $(WORKERS) $(PYTEST_ARGS)

lint: $(VENV)/.installed-dev ## check style and format with ruff
	@echo "==> Checking style and format"
	@status=0; $(BIN)/ruff check . || status=1; $(BIN)/ruff format --check . || status=1; exit $$status

types: $(VENV)/.installed-dev ## check types with mypy and pyright
	@echo "==> Checking types"
	@status=0; $(BIN)/mypy || status=1; $(BIN)/pyright --pythonpath $(BIN)/python || status=1; exit $$status

bench: $(VENV)/.installed-bench ## run the short benchmarks and write benchmarks/results.md (BENCH_ARGS=--small for a look)
	@echo "==> Running the benchmarks"
	@$(BIN)/python -m benchmarks $(BENCH_ARGS)

docs: $(VENV)/.installed-dev ## build the site of the documents and the reference of Python into build/site
	@echo "==> Building the site into build/site"
	@$(BIN)/python -m mkdocs build -q --strict

real: $(VENV)/.warmed ## run a real model on this machine: MODEL=FILE.gguf or API_BASE=URL for a better one; writes docs/real-models.md
	@echo "==> Running a real model (up to MINUTES=$(MINUTES); 155 MB are downloaded the first time)"
	@$(BIN)/python -m tests.real_models --minutes $(MINUTES) $(if $(MODEL),--model '$(MODEL)') \
		$(if $(API_BASE),--api-base '$(API_BASE)') $(if $(LM),--lm '$(LM)')

build: $(VENV)/.installed-dev ## build the sdist and the wheel into dist/
	@echo "==> Building the sdist and the wheel into dist/"
	@rm -rf build dist # a module left over in build/ would end up in the wheel
	@$(BIN)/python -m build --outdir dist .

lock: pyproject.toml | $(BIN)/pip ## renew requirements-dev.lock: the newest versions that pyproject.toml allows
	@echo "==> Renewing requirements-dev.lock"
	@$(PIP_INSTALL) uv
	@$(BIN)/uv pip compile -q --upgrade --universal --python-version 3.11 --extra dev --generate-hashes \
		--custom-compile-command 'make lock' -o requirements-dev.lock pyproject.toml

clean: ## remove builds and caches (not the environment, not logs)
	@echo "==> Removing builds and caches"
	@rm -rf build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis benchmarks/.data
	@find . -name __pycache__ -not -path './$(VENV)/*' -prune -exec rm -rf {} +

# pip is the last thing that venv puts in place: where it is, the environment is complete.
$(BIN)/pip:
	@$(PYTHON) -c '' || { echo >&2 "'$(PYTHON)' does not run: install Python 3.11 or later, or name one with PYTHON=..."; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo >&2 "rbank-es needs Python 3.11 or later, '$(PYTHON)' is $$($(PYTHON) --version): name another with PYTHON=python3.11"; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
		echo >&2 "'$(PYTHON)' can't make environments (no venv or ensurepip; on Debian and Ubuntu: apt install python3-venv)"; exit 1; }
	@echo "==> Creating a virtual environment in $(VENV)"
	@$(PYTHON) -m venv $(VENV)

# A stamp is older than pyproject.toml when what must be installed may have changed.
$(VENV)/.installed-demo: pyproject.toml | $(BIN)/pip
	@echo "==> Installing rbank-es and what it needs, DSPy and Deno included (a minute or two the first time)"
	@$(INSTALL) '.[agent]'
	@touch $@

# Without a network this fails; the demo and the tests of the sandbox then end and say why, and the next one tries again.
$(VENV)/.warmed: $(VENV)/.installed-demo
	@echo "==> Filling the sandbox's cache (13 MB the first time)"
	@if said="$$($(BIN)/rbank-es doctor --warm 2>&1)"; then touch $@; else echo "$$said"; fi

# The development tools include what the demo needs, so that stamp is set as well. Every package is of the version and
# the digest that the lock file names, so that two runs of the tests, months apart, test the same.
$(VENV)/.installed-dev: pyproject.toml requirements-dev.lock | $(BIN)/pip
	@echo "==> Installing rbank-es and its development tools (a minute or two the first time)"
	@$(PIP_INSTALL) --require-hashes -r requirements-dev.lock
	@$(INSTALL) . --no-deps --no-build-isolation
	@touch $@ $(VENV)/.installed-demo

$(VENV)/.installed-bench: pyproject.toml | $(BIN)/pip
	@echo "==> Installing rbank-es and what it is compared with (a minute or two the first time)"
	@$(INSTALL) '.[bench,agent]'
	@touch $@ $(VENV)/.installed-demo
