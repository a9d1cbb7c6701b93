PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: demo test gpu-test lint clean

# One environment serves every target; it is made anew when what it installs changes.
$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; v = sys.version_info; sys.exit(v < (3, 11) and \
		f"manyhands needs Python 3.11 or newer; $(PYTHON) is {v.major}.{v.minor}. Try: make PYTHON=python3.12")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $(READY)

demo: $(READY)
	$(BIN)/manyhands demo $(DEMO_FLAGS)

test: $(READY) lint
	$(BIN)/pytest

gpu-test: $(READY)
	$(BIN)/pytest -m gpu

lint: $(READY)
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

clean:
	rm -rf $(VENV) build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis src/*.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
