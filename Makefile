# make demo   from text to a verdict and its page, offline, in a few minutes on two cores
# make test   linters, types, the whole test suite      make test-core   without the slow tests
# make test-browser   the report in a real Chromium, where there is one (apt-get install chromium fonts-noto-cjk)
# make docs   the documentation as a site in site/
# make test-engines   on a real SLURM and a real Ray, where they are installed (.ci/run installs both)
# make fuzz   5,000 command lines and 2,000 damaged files      make faults   500 runs killed at writes and at random
# make soak   20,000 steps, watched      make startup   what all the checks cost when a run starts
# make simulations   500 studies of each design, from files to verdicts: how often is one wrong
# make bench  our training step beside other people's (oelm bench)      make results   tables and pages from results/

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

# Tests start many small processes: one thread each, as many at once as there are cores.
TEST_ENV := OMP_NUM_THREADS=1 TOKENIZERS_PARALLELISM=false HF_HUB_OFFLINE=1 \
	TORCHINDUCTOR_COMPILE_THREADS=1 TORCHINDUCTOR_CACHE_DIR=$(CURDIR)/$(VENV)/inductor
# They write, sync and delete thousands of small files: in memory, where two gigabytes are free and programs may start.
SHM := /dev/shm
SCRATCH := $(shell [ -w $(SHM) ] && ! grep -qs ' $(SHM) .*noexec' /proc/mounts && \
	df -Pm $(SHM) | awk 'NR == 2 && $$4 > 2000 { print "$(SHM)" }')
PYTEST := scratch=$$(mktemp -d $(or $(SCRATCH),$(TMPDIR),/tmp)/oelm-tests-XXXXXX) && trap 'rm -rf $$scratch' EXIT INT TERM && \
	TMPDIR=$$scratch $(TEST_ENV) $(BIN)/python -m pytest -n auto --dist worksteal

.PHONY: demo test test-core test-browser test-engines lint fuzz faults soak startup simulations bench results docs clean

demo: $(VENV)/.ready
	$(BIN)/oelm quickstart

test: lint
	$(PYTEST) -m "not browser and not slurm and not ray"
	$(TEST_ENV) $(BIN)/python -m pytest -n auto --dist worksteal -m browser

test-core: lint
	$(PYTEST) -m "not slow"

test-engines: $(VENV)/.ready-dev
	$(TEST_ENV) $(BIN)/python -m pytest -m "slurm or ray"

test-browser: $(VENV)/.ready-dev
	$(TEST_ENV) $(BIN)/python -m pytest -m browser

lint: $(VENV)/.ready-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# In pieces, so that a stopped one loses little; what gets through is printed, the counts are a record.
RELIABILITY := results/reliability
fuzz: $(VENV)/.ready-dev
	rm -f $(RELIABILITY)/fuzz.json
	cd tests && for piece in 1 2 3 4 5 6 7 8 9 10; do \
		$(TEST_ENV) ../$(BIN)/python -m fuzz.fuzzing --lines 500 --files 240 --seed $$piece \
			--add-to ../$(RELIABILITY)/fuzz.json || exit 1; done

faults: $(VENV)/.ready-dev
	rm -f $(RELIABILITY)/faults.json
	cd tests && for piece in 1 2 3 4 5 6 7 8 9 10; do \
		$(TEST_ENV) ../$(BIN)/python -m fuzz.faults --kills 50 --seed $$piece \
			--add-to ../$(RELIABILITY)/faults.json || exit 1; done

simulations: $(VENV)/.ready-dev
	rm -f $(RELIABILITY)/simulations.json
	cd tests && for piece in 1 2 3 4 5; do \
		$(TEST_ENV) ../$(BIN)/python -m simulations.simulating --studies 100 --seed $$piece \
			--add-to ../$(RELIABILITY)/simulations.json || exit 1; done

soak: $(VENV)/.ready-dev
	cd tests && $(TEST_ENV) ../$(BIN)/python -m fuzz.soak --add-to ../$(RELIABILITY)/soak.json

startup: $(VENV)/.ready-dev
	cd tests && $(TEST_ENV) ../$(BIN)/python -m fuzz.startup --add-to ../$(RELIABILITY)/startup.json

bench: $(VENV)/.ready-dev
	$(BIN)/oelm bench

results: $(VENV)/.ready-dev
	$(BIN)/python benchmarks/fill_readme.py

docs: $(VENV)/.ready-dev
	$(BIN)/mkdocs build

$(VENV)/.ready: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "oelm needs Python 3.11 or newer. Fix: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(PIP) torch
	$(PIP) --editable .
	touch $@

$(VENV)/.ready-dev: $(VENV)/.ready
	$(PIP) --editable '.[dev]'
	touch $@

clean:
	rm -rf $(VENV) site .mypy_cache .ruff_cache .pytest_cache
