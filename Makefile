# `make demo` and `make test` need nothing but Python 3.11+ and make: each sets up its own virtual environment.
PYTHON ?= python3
VENV   ?= .venv
BIN     = $(VENV)/bin
# Two test processes: the machines this is built on have two cores, and a third brings nothing.
PYTEST  = $(BIN)/python -m pytest -n 2 --dist worksteal

# What modules are compiled to is kept, also where the environment says otherwise: tests start hundreds of processes.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test docs docs-quick coverage soak patience fuzz lint format bench release-check clean

demo: $(VENV)/.demo
	$(BIN)/glmesh demo

test: $(VENV)/.test
	$(PYTEST)

# Which lines no test reaches; fails below the floor in pyproject.toml.
coverage: $(VENV)/.test
	$(PYTEST) --cov --cov-report=term-missing

# The numbers of the acceptance instead of a tenth; writes benchmarks/reports/soak.md.
soak: $(VENV)/.test
	GLMESH_SOAK=1 $(PYTEST) --timeout=3600

# The tests that wait for processes, 20 times beside eight busy ones (about an hour on two cores); writes
# benchmarks/reports/patience.md.
patience: $(VENV)/.test
	$(BIN)/python -m tests.patience

# What crosses a link between peers, a million inputs (some minutes).
fuzz: $(VENV)/.fuzz
	$(BIN)/python -m tests.fuzz_peers -runs=1000000 -max_len=2048 -rss_limit_mb=2048 -max_total_time=1200

# The site, in build/docs: every warning is an error, and what is built is checked. The quick one does not run the gallery's scripts.
SPHINX = $(BIN)/python -W ignore::DeprecationWarning -m sphinx --fail-on-warning --keep-going --quiet --fresh-env
docs: SPHINX_OPTIONS =
docs-quick: SPHINX_OPTIONS = -D plot_gallery=0
docs docs-quick: $(VENV)/.docs
	rm -rf build/docs docs/generated
	MPLBACKEND=agg $(SPHINX) $(SPHINX_OPTIONS) docs build/docs
	$(BIN)/python docs/_site/check.py build/docs

lint: $(VENV)/.lint
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(VENV)/.lint
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

# GLMESH_DATA names the folder with the real data sets.
bench: $(VENV)/.bench
	$(BIN)/python benchmarks/kernel.py
	$(BIN)/python benchmarks/simulator.py
	$(BIN)/python benchmarks/scale.py
	$(BIN)/python benchmarks/elastic.py
	$(BIN)/python benchmarks/communications.py
	$(BIN)/python benchmarks/rivals.py docs/reports/rivals
	$(BIN)/python benchmarks/peers.py
	$(BIN)/python benchmarks/masks.py
	$(BIN)/python benchmarks/mpi.py
	$(BIN)/python benchmarks/sensitivity.py
	$(BIN)/python benchmarks/read_csv.py

# Wheel and source archive, in dist: each is installed in an environment of its own outside of this folder, and tried.
release-check: $(VENV)/.release
	$(BIN)/python -m tests.release dist

$(VENV)/.%: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[$*]"
	touch $@

clean:
	rm -rf $(VENV) build dist docs/generated .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find src tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +
