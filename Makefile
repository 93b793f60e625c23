# make demo: the whole story on embedded characters. make lint test docs-check: all that CI checks. make gpu-check: what needs a GPU.
# make nightly: what takes too long for make test. The rest: CONTRIBUTING.md.
PYTHON ?= python3
# The newest Python that is here and allowed; those of pyenv are not on the path.
NEWEST ?= $(shell for it in python3.13 ~/.pyenv/versions/3.13*/bin/python python3.12 ~/.pyenv/versions/3.12*/bin/python \
	$(PYTHON); do $$it --version > /dev/null 2>&1 && echo $$it && break; done)
BIN := .venv/bin
UV := $(BIN)/uv --quiet
# The versions of constraints.txt, those of the build included.
INSTALL := $(UV) pip install --python $(BIN)/python --constraint constraints.txt --build-constraint constraints.txt
# Where the environment says that Python keeps no bytecode, each process would compile all that it imports anew.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: demo test docs-check test-integrations test-browser lint style types imports repeats gpu-check rehearse docs site clean \
	mutants fuzz soak load test-lowest test-latest test-slow nightly constraints audit

# Twice quiet: pip's warnings about indices of a machine's own are nothing to act on, and errors are still said.
.venv/.uv: constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install -qq --disable-pip-version-check --constraint constraints.txt uv
	touch $@

# Installed again only when the dependencies change: the program alone for the demo, and what checks it for the rest.
.venv/.program: .venv/.uv pyproject.toml
	$(INSTALL) --editable .
	touch $@

.venv/.installed: .venv/.program
	$(INSTALL) --editable '.[dev]'
	touch $@

# One version of each package for every Python that is allowed. What stands there stays where it fits pyproject.toml;
# `make constraints UPGRADE=--upgrade` takes the newest. torch and torchvision are the newest that machines with a cap of
# their own for pip may have.
# GATE: what comparing predictions needs of the program's dependencies; the rest is for training.
GATE := numpy duckdb scipy pydantic pyyaml typer rich pillow matplotlib jinja2 pyarrow
HELD := 'torch<=2.14.1' 'torchvision<=0.29.1'
constraints: .venv/.uv
	printf '%s\n' uv hatchling editables $(HELD) | $(UV) pip compile --universal --fork-strategy fewest --all-extras \
		--no-header --no-annotate --no-emit-index-url $(UPGRADE) --output-file constraints.txt pyproject.toml - > /dev/null
	printf '%s\n' $(GATE) | $(UV) pip compile --universal --fork-strategy fewest --constraint constraints.txt \
		--no-header --no-annotate --no-emit-index-url --output-file requirements-gate.txt - > /dev/null

demo: .venv/.program
	$(BIN)/mptctl quickstart --overwrite

# Side by side, each one's output in one piece.
lint: .venv/.installed
	@$(MAKE) --no-print-directory --jobs --output-sync=target style types imports repeats

style:
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types:
	$(BIN)/mypy

imports:
	$(BIN)/lint-imports

repeats:
	$(BIN)/pylint mptctl kernels/mpt_kernels

# One process more than there are cores, since tests of commands wait now and then; each takes tests from another's queue
# when its own is empty.
PYTEST_ALL = pytest --numprocesses $$($(PYTHON) -c 'import os; print((os.cpu_count() or 1) + 1)') --dist worksteal

test:
	@echo "make test: installs what is missing of .venv (7 GB), then all tests; about 10 minutes on two idle cores, and the \
	time of the download. Style and types: make lint. What docs say: make docs-check."
	@$(MAKE) --no-print-directory .venv/.installed
	+$(BIN)/$(PYTEST_ALL)

# Numbers, words, links and pictures of README and docs; of use where these, or files in results/, have changed.
docs-check: .venv/.installed
	$(BIN)/$(PYTEST_ALL) -m 'docs and not nightly'

# The tests that make test leaves out, each for a reason that CONTRIBUTING.md gives.
test-slow: .venv/.installed
	$(BIN)/$(PYTEST_ALL) -m nightly

# Puts one wrong expression at a time into the package, and sees a test of its room fail. By hand and in a nightly job.
mutants: .venv/.installed
	$(BIN)/python -m tests.mutants

# Damages inputs of the command line at random, and kills its work at random moments. By hand and, with fewer cases that
# are others each day, in a nightly job.
# Cases, pictures and seed.
FUZZ ?= 30000 10000 0
fuzz: .venv/.installed
	MPTCTL_FUZZ='$(FUZZ)' $(BIN)/$(PYTEST_ALL) -m '' tests/fuzz

soak: .venv/.installed
	MPTCTL_KILLS=50 $(BIN)/pytest -m '' tests/soak

# Much at once, of the sizes that are promised: runs, files, flips, commands. Prints what they cost.
load: .venv/.installed
	MPTCTL_LOAD=1 $(BIN)/pytest tests/load

# The suite on the lowest and on the newest versions that pyproject.toml allows, the newest with the newest Python. Each
# environment takes 6 to 9 GB and is removed after its run; `make .venv-latest` makes one that stays until then.
.venv-lowest: .venv/.uv pyproject.toml
	$(UV) venv --clear --python $(PYTHON) $@
	$(UV) pip install --python $@ --resolution lowest-direct --editable '.[dev]' || { rm -rf $@; exit 1; }

.venv-latest: .venv/.uv pyproject.toml
	$(UV) venv --clear --python $(NEWEST) $@
	$(UV) pip install --python $@ --upgrade --editable '.[dev]' || { rm -rf $@; exit 1; }

test-lowest: .venv-lowest
	.venv-lowest/bin/$(PYTEST_ALL); ended=$$?; rm -rf .venv-lowest; exit $$ended

test-latest: .venv-latest
	.venv-latest/bin/mypy && .venv-latest/bin/$(PYTEST_ALL); ended=$$?; rm -rf .venv-latest; exit $$ended

# Goes on after what fails, and says at the end what ran, in what time, and what failed.
nightly: export FUZZ := 10000 3000 $(shell date +%Y%m%d)
nightly:
	.ci/each test-slow mutants fuzz soak load test-integrations test-lowest test-latest rehearse

# Known faults of the packages that are installed, by the databases of PyPI.
audit: .venv/.program
	$(INSTALL) pip-audit
	$(BIN)/pip-audit --skip-editable

# What Python programs of others may bring: several gigabytes, so that neither demo nor test needs it.
.venv/.integrations: .venv/.installed
	$(INSTALL) --editable '.[integrations]'
	touch $@

test-integrations: .venv/.integrations
	$(BIN)/pytest -rs tests/integrations tests/evaluation/reading/test_arrays.py tests/examples/test_notebooks.py

# Pages in the system's Chromium (MPTCTL_CHROMIUM names another one). axe-core is under MPL-2.0 and stays out of the tree.
.venv/.browser: .venv/.installed
	$(INSTALL) --editable '.[browser]'
	npm install --silent --no-save --no-package-lock axe-core@4
	touch $@

test-browser: .venv/.browser
	$(BIN)/pytest -rs tests/report/test_browser.py tests/report/test_label_page.py

# What only a card can show (CONTRIBUTING.md), in parts: GPU_CHECK='--parts quick,kernel'. Where there is no environment of
# `make test`, the system's Python runs it, and what it lacks is named.
gpu-check:
	$(firstword $(wildcard $(BIN)/python) $(PYTHON)) tests/gpu/check.py --out $(or $(OUT),results) $(GPU_CHECK)

# The same check without a card, in the versions of the card's tests; the environment takes 6 GB and is removed afterwards.
# Its NumPy is newer: the interpreter of Triton 3.6, which only a rehearsal needs, goes up to 2.3.
PYTHON_312 = $(shell for it in python3.12 ~/.pyenv/versions/3.12*/bin/python; do \
	$$it --version > /dev/null 2>&1 && echo $$it && break; done)
.venv-gpu: .venv/.uv
	$(UV) venv --clear --python $(or $(PYTHON_312),3.12) $@
	$(UV) pip install --python $@ torch==2.11.0 torchvision==0.26.0 triton==3.6.0 'numpy<2.4' nvidia-dali-cuda130==2.4.0 \
		pydantic pyyaml typer rich pillow scipy duckdb pyarrow tensorboardX torchcodec pytest pytest-xdist hypothesis torchmetrics \
		matplotlib \
		|| { rm -rf $@; exit 1; }

rehearse: .venv-gpu
	.venv-gpu/bin/python tests/gpu/check.py --rehearse --out .cache/rehearsal --seconds 2400; ended=$$?; \
		rm -rf .venv-gpu; exit $$ended

docs: .venv/.installed
	$(BIN)/mptctl reference > docs/reference.md
	$(BIN)/python -m tools.draw_terminal
	$(BIN)/python -m tools.draw_evidence
	$(BIN)/python -m tools.draw_flips
	$(BIN)/python -m tools.draw_figures

# The documentation as pages for a browser, in site/; a link that leads nowhere ends it.
.venv/.site: .venv/.program
	$(INSTALL) --editable '.[site]'
	touch $@

site: .venv/.site
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict

clean:
	rm -rf .venv .venv-lowest .venv-latest .venv-gpu site .cache .pytest_cache .mypy_cache .ruff_cache .hypothesis
