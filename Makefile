# Two commands do everything on a fresh machine: `make demo` and `make test`. `make help` lists the rest.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
ARGUS := $(BIN)/argus

# Hundreds of processes start in these targets: each would compile the same modules again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help setup demo test format lint checks types eval-smoke bench-smoke live-smoke unit soak soak-ingest soak-chaos soak-crowd soak-fuzz resolve clean

help:  ## what there is
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/'

setup: $(VENV)/.done  ## the virtual environment, from the committed constraints

$(VENV)/.done: pyproject.toml deploy/constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --constraint deploy/constraints.txt torch==2.13.0
	$(BIN)/pip install --quiet --constraint deploy/constraints.txt --editable '.[dev]'
	touch $@

demo: setup  ## a real 4-rank job, a real fault, the incident it makes
	$(ARGUS) demo

test: format lint checks live-smoke unit  ## the checks in their short form; LONG=1 adds the longest tests, as CI does

format: setup
	$(BIN)/ruff format --check .

lint: setup
	$(BIN)/ruff check .

checks: setup  # none of them needs a quiet machine; together they keep two cores busy
	$(MAKE) --no-print-directory -j 3 --output-sync=line types eval-smoke bench-smoke

types: setup
	$(BIN)/mypy

eval-smoke: setup
	$(ARGUS) eval run --smoke --gate evals/baseline.json
	$(ARGUS) eval fidelity --smoke >/dev/null

bench-smoke: setup
	$(ARGUS) bench all --smoke --skip demo

live-smoke: setup  # real jobs whose pace is judged: nothing beside them
	$(ARGUS) bench demo --smoke
	$(ARGUS) eval live --smoke
	$(if $(LONG),$(ARGUS) demo --fault none)
	$(if $(LONG),$(ARGUS) eval live --fault slow_loader)

unit: setup
	$(BIN)/python -m pytest -q -n 3 --dist worksteal $(if $(LONG),,-m "not long")

soak: setup  ## the full figures, written to docs/benchmarks.md, docs/fidelity.md and docs/evals.md (some hours)
	$(ARGUS) bench all --full --write docs/benchmarks.md
	$(ARGUS) eval run --full
	$(ARGUS) eval fidelity --full --write docs/fidelity.md
	$(ARGUS) eval live --full --write docs/evals.md
	$(MAKE) soak-fuzz

soak-ingest: setup  ## ten minutes of uploads of 10,240 ranks; needs idle cores
	$(ARGUS) bench ingest --full --write docs/benchmarks.md

soak-chaos: setup  ## fifty kills of services, database and processor
	$(ARGUS) bench chaos --full --write docs/benchmarks.md

soak-crowd: setup  ## ten thousand slow clients
	$(ARGUS) bench crowd --full --write docs/benchmarks.md

soak-fuzz: setup  ## more than a hundred thousand inputs to ingest, five hundred to every operation
	FUZZ_ROUNDS=8500 SCHEMA_EXAMPLES=500 $(BIN)/python -m pytest -q --timeout=0 tests/api/test_fuzz.py tests/api/test_schema.py

resolve: setup  ## whether the committed versions can be installed on each Python, with the torch its index has
	for version in 3.11 3.12 3.13 3.14; do \
	  $(BIN)/pip install --quiet --dry-run --ignore-installed --target $(VENV)/none --only-binary=:all: \
	    --python-version $$version --constraint deploy/constraints.txt torch==2.13.0 '.[dev]' || exit 1; \
	done

clean:
	rm -rf $(VENV) build dist *.egg-info
