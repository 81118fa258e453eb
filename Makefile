# Every target sets up what it needs: a machine with Python 3.11 or later and a C compiler is enough.
# Another interpreter: make setup PYTHON=python3.12

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.stamp

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help setup generate table test sanitize check explain book train bench outside laws

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-10s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

setup: $(STAMP) ## create or update .venv, with the versions in constraints.txt

generate: $(STAMP) ## derive the catalogue anew, into generated/
	@$(BIN)/derive generate

table: $(STAMP) ## count every backward anew, into docs/backward-table.md
	@$(BIN)/derive table --against docs/hand_derived.py --out docs/backward-table.md

test: $(STAMP) ## run the tests (ARGS="-m 'not slow'"; NAMES_FILE=names.txt for the training data)
	@OMP_NUM_THREADS=$${OMP_NUM_THREADS:-1} $(BIN)/python -m pytest -n auto $(ARGS)

sanitize: $(STAMP) ## run the corpus's kernels under the sanitizers of GCC (OPS="layernorm gelu" ARGS="--jobs 2 --again")
	@OMP_NUM_THREADS=$${OMP_NUM_THREADS:-1} $(BIN)/python -m tests.native.sanitize $(OPS) $(ARGS)

check: $(STAMP) ## lint, check the types, and check that generated/ is what the specs say
	@$(BIN)/python -m ruff check
	@$(BIN)/python -m mypy
	@$(BIN)/lint-imports
	@$(BIN)/derive generate --check
	@$(BIN)/derive table --against docs/hand_derived.py --out docs/backward-table.md --check

explain: $(STAMP) ## show how a backward pass was derived (OP=batchnorm)
	@$(if $(OP),,$(error say which op: make explain OP=batchnorm))$(BIN)/derive explain $(OP)

book: $(STAMP) ## write the formula book into book/: open book/index.html
	@$(BIN)/derive book --lessons docs/lessons $(foreach file,$(wildcard runs/benchmarks.json runs/measured/*.json),--measured $(file)) $(ARGS)

train: $(STAMP) ## train the model of names (ARGS="--help" lists the options)
	@$(BIN)/python -m training.names $(ARGS)

# JAX and matplotlib are only for this, so they are installed when it is first asked for.
bench: $(STAMP) ## measure against autograd, torch.compile, JAX, native ops (OPS="layernorm gelu" QUICK=1 ARGS="--help")
	@$(BIN)/python -c 'import jax, matplotlib' 2>/dev/null \
	  || $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[bench]'
	@$(BIN)/python -m benchmarks $(OPS) $(if $(QUICK),--quick) $(ARGS)

laws: $(STAMP) ## take every rule and pass away in turn, over the corpus, into docs/laws.md (ARGS="--spec softmax")
	@OMP_NUM_THREADS=1 $(BIN)/python -m tests.laws $(ARGS)

outside: $(STAMP) ## try, count and time the problems of outside suites, into docs/outside.md (ARGS="right --suite liger")
	@OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.outside $(ARGS)

# The stamp holds the folder it was made in: a copied or moved .venv would run the code of the old place.
ifneq ($(shell cat $(STAMP) 2>/dev/null),$(CURDIR))
.PHONY: $(STAMP)
endif

$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "$(PYTHON) is not Python 3.11 or later; name one that is: make setup PYTHON=..." >&2; exit 1; }
	@echo "Setting up $(VENV) ..."
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@echo '$(CURDIR)' > $@
