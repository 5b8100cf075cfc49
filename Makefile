# GNU make 3.81 or newer. `make help` lists the targets; those that run something build .venv first.

SHELL := /bin/sh
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

# What `make sweep` runs where no RECIPE is named.
SWEEPS := electronic-surveys multi-group

# Set on the command line only: an assignment here hides variables of the environment, so that
# nothing but the command configures a run. PYTHON may come from either.
RECIPE :=
PROFILE :=
WORKERS :=
REPEATS :=
RUN :=
OUT := runs
GRADE := small

# Images of containers often set this; each process, some hundreds in the tests, would then compile
# all that it imports.
unexport PYTHONDONTWRITEBYTECODE

# Tests that are side by side share no folder and no port. Eight processes take 4 GB.
ABREAST := --numprocesses logical --maxprocesses 8 --dist worksteal

VENV := .venv
BIN := $(VENV)/bin

# The stamp's name is keyed on what the environment is built from, and on the folder: a copied
# checkout must not run the sources of the original.
KEY := $(shell { pwd; cat pyproject.toml constraints.txt hashes.txt hatch_build.py tools/setup.sh; } | cksum | cut -d' ' -f1)
STAMP := $(VENV)/.ready-$(KEY)

# A Python named by the user rebuilds an environment that was built with another one.
ifneq ($(strip $(PYTHON)),)
ifneq ($(strip $(PYTHON)),$(shell cut -f1 $(STAMP) 2>/dev/null))
$(STAMP): again
endif
endif

.PHONY: again bench clean docs figures format fronts help lint reproduce setup sweep test test-all test-cluster type

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' Makefile

setup: $(STAMP) ## Build the environment in .venv [PYTHON=python3.12]

$(STAMP):
	@sh tools/setup.sh $@ "$(strip $(PYTHON))"

sweep: $(STAMP) ## Run the main job [RECIPE=name|file] [PROFILE=name|file] [REPEATS=n] [WORKERS=n] [OUT=runs]
	$(BIN)/ppdm run $(or $(RECIPE),$(SWEEPS)) --out $(OUT) $(if $(REPEATS),--repeats $(REPEATS)) $(if $(WORKERS),--workers $(WORKERS)) $(if $(PROFILE),--cluster $(PROFILE))

fronts: $(STAMP) ## Search for randomization matrices: the OptRR experiments [PROFILE=name|file] [REPEATS=n] [WORKERS=n] [OUT=runs]
	$(BIN)/ppdm run optrr optrr-adult --out $(OUT) $(if $(REPEATS),--repeats $(REPEATS)) $(if $(WORKERS),--workers $(WORKERS)) $(if $(PROFILE),--cluster $(PROFILE))

reproduce: $(STAMP) ## Run all recipes and compare them with their goldens [GRADE=small|full] [PROFILE=name|file] [WORKERS=n] [OUT=runs]
	$(BIN)/ppdm reproduce --grade $(GRADE) --out $(OUT)/reproduce-$(GRADE) $(if $(WORKERS),--workers $(WORKERS)) $(if $(PROFILE),--cluster $(PROFILE))

figures: $(STAMP) ## Draw the figures of a run again, the newest if none is named [RUN=folder]
	@run="$(RUN)"; \
	[ -n "$$run" ] || run=$$(ls -td $(OUT)/*/ 2>/dev/null | head -n 1); \
	[ -n "$$run" ] || { echo "figures: no run in $(OUT)/; 'make sweep' makes one" >&2; exit 2; }; \
	$(BIN)/ppdm figures "$$run"

test: $(STAMP) ## Run the fast tests, on all processors
	$(BIN)/python -m pytest $(ABREAST) -m "not slow and not cluster"

test-all: $(STAMP) ## Run the fast tests and the slow, statistical ones
	$(BIN)/python -m pytest $(ABREAST) -m "not cluster"

test-cluster: $(STAMP) ## Run the tests that start and kill real Dask processes
	$(BIN)/python -m pytest --numprocesses 2 --dist loadfile -m cluster

lint: $(STAMP) ## Check style and imports
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

format: $(STAMP) ## Mend what ruff can mend
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

type: $(STAMP) ## Check the types
	$(BIN)/mypy --strict ppdm_dask

# A second stamp: what only the site needs is not in the way of tests and runs.
DOCS := $(VENV)/.docs-$(KEY)

$(DOCS): $(STAMP)
	$(BIN)/python -m pip install -qq --disable-pip-version-check --report $(VENV)/docs.json --constraint constraints.txt 'ppdm-dask[docs]'
	$(BIN)/python -S tools/check_hashes.py hashes.txt $(VENV)/docs.json
	@touch $@

docs: $(DOCS) ## Build the site in build/site, run its notebooks, check its links
	$(BIN)/python -m sphinx -q -E -W --keep-going -c docs -d build/site-cache -b html . build/site
	$(BIN)/python tools/check_site.py build/site

bench: $(STAMP) ## Measure the speed against other ways, as ratios
	@set -e; for benchmark in $$(grep -l __main__ benchmarks/*.py); do \
	echo "$$benchmark"; $(BIN)/python "$$benchmark"; done

clean: ## Remove the environment, caches and build products; runs stay
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
