# make demo: the whole story on embedded characters. make test: everything CI checks. make gpu-check: what needs a GPU.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test test-integrations test-browser lint gpu-check gpu-wheels docs site clean break-guards fuzz soak load test-lowest audit

# Installed again only when the dependencies change: the program alone for the demo, and what checks it for the rest.
.venv/.program: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	touch $@

.venv/.installed: .venv/.program
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	touch $@

demo: .venv/.program
	$(BIN)/mptctl quickstart --overwrite

lint: .venv/.installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/pylint mptctl kernels/mpt_kernels

# One process a core, each taking tests from the other's queue when its own is empty.
test: lint
	$(BIN)/pytest --numprocesses logical --dist worksteal

# Takes out the guard of each row of the fault table, and sees the row's test fail. By hand and in a nightly job.
break-guards: .venv/.installed
	$(BIN)/python -m tools.break_guards

# Damages inputs of the command line at random, and kills its work at random moments. By hand and in a nightly job.
fuzz: .venv/.installed
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.fuzz --cases 30000 --pictures 10000

soak: .venv/.installed
	$(BIN)/python -m tests.soak --kills 50

# Much at once, of the sizes that are promised: runs, files, flips, commands. Prints what they cost.
load: .venv/.installed
	MPTCTL_LOAD=1 $(BIN)/pytest tests/load

# The suite on the lowest versions that pyproject.toml allows. By hand and in a nightly job: it downloads gigabytes.
.venv-lowest/.installed: pyproject.toml
	test -x .venv-lowest/bin/python || $(PYTHON) -m venv .venv-lowest
	.venv-lowest/bin/python -m pip install --quiet --disable-pip-version-check uv
	.venv-lowest/bin/uv pip install --quiet --python .venv-lowest/bin/python --resolution lowest-direct --editable '.[dev]'
	touch $@

test-lowest: .venv-lowest/.installed
	.venv-lowest/bin/pytest --numprocesses logical --dist worksteal

# Known faults of the packages that are installed, by the databases of PyPI.
audit: .venv/.program
	$(BIN)/python -m pip install --quiet --disable-pip-version-check pip-audit
	$(BIN)/pip-audit --skip-editable

# What Python programs of others may bring: several gigabytes, so that neither demo nor test needs it.
.venv/.integrations: .venv/.installed
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[integrations]'
	touch $@

test-integrations: .venv/.integrations
	$(BIN)/pytest -rs tests/integrations tests/evaluation/test_arrays.py tests/examples/test_notebooks.py

# Pages in the system's Chromium (MPTCTL_CHROMIUM names another one). axe-core is under MPL-2.0 and stays out of the tree.
.venv/.browser: .venv/.installed
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[browser]'
	npm install --silent --no-save --no-package-lock axe-core@4
	touch $@

test-browser: .venv/.browser
	$(BIN)/pytest -rs tests/report/test_browser.py

gpu-check:
	PYTHONPATH=.:kernels:$(PYTHONPATH) $(PYTHON) tests/gpu/check.py

# What the program needs beside torch, for a GPU machine with CPython 3.12 and no network. There:
# pip install --no-index --no-deps --target SITE .gpu-wheels/*.whl && PYTHONPATH=SITE make gpu-check PYTHON=python3
PIP := $(PYTHON) -m pip --quiet --disable-pip-version-check
FOR_312 := --python-version 3.12 --implementation cp $(addprefix --platform manylinux,_2_28_x86_64 _2_17_x86_64 2014_x86_64)
gpu-wheels:
	$(PIP) download --only-binary=:all: $(FOR_312) --dest .gpu-wheels pydantic pyyaml 'typer>=0.29'
	$(PIP) download --only-binary=:all: --no-deps --dest .gpu-wheels tensorboardX

docs: .venv/.installed
	$(BIN)/mptctl reference > docs/reference.md
	$(BIN)/python -m tools.draw_house
	$(BIN)/python -m tools.draw_terminal

# The documentation as pages for a browser, in site/; a link that leads nowhere ends it.
.venv/.site: .venv/.program
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[site]'
	touch $@

site: .venv/.site
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict

clean:
	rm -rf .venv site .gpu-wheels .cache .pytest_cache .mypy_cache .ruff_cache .hypothesis
