# make demo: the whole story on the embedded digits. make test: everything CI checks. make gpu-check: what needs a GPU.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test lint gpu-check docs clean

# Installed again only when the dependencies change.
.venv/.installed: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	touch $@

demo: .venv/.installed
	$(BIN)/mptctl quickstart --overwrite

lint: .venv/.installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

test: lint
	$(BIN)/pytest

gpu-check:
	PYTHONPATH=.:kernels $(PYTHON) tests/gpu/check.py

docs: .venv/.installed
	$(BIN)/mptctl reference > docs/reference.md

clean:
	rm -rf .venv .cache .pytest_cache .mypy_cache .ruff_cache .hypothesis
