# Two commands are all there is: `make demo` and `make test`. `make help` lists the rest.
PYTHON ?= python3
BIN    := .venv/bin
LOCK   ?= dev
# Nothing is installed that the lock does not name by its hash, and nothing is built from source.
INSTALL := $(BIN)/pip install --quiet --disable-pip-version-check --require-hashes

.DEFAULT_GOAL := help
.PHONY: help demo pictures test test-fast lint types notebooks notebooks-test docs compose-test helm-test bench bench-long bench-gpu gpu lock sbom audit clean

help:            ## this list
	@grep -hE '^[a-z-]+: .*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## */\t/' | expand -t 14

# The stamp is newer than what it was made from, or the install runs again.
.venv/stamp: pyproject.toml locks/$(LOCK).txt
	@sh tests/support/services/python.sh "$(PYTHON)"
	@echo "installing into .venv (torch is the large part) ..."
	@$(INSTALL) -r locks/$(LOCK).txt
	@$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

# The demo needs a tenth of what the tests need: a new checkout installs only that; an environment for the tests has it too. It
# imports a third of it, so nothing is compiled before it is imported: a quarter less time, 110 MB less.
.venv/demo-stamp: pyproject.toml locks/demo.txt locks/build.txt
	@sh tests/support/services/python.sh "$(PYTHON)"
	@echo "installing into .venv ..."
	@$(INSTALL) --no-compile -r locks/demo.txt -r locks/build.txt
	@$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

demo: $(firstword $(wildcard .venv/stamp) .venv/demo-stamp)   ## from records to alerts on one machine, about a minute; its last line says how to open the queue in a browser
	@$(BIN)/fingerprint demo --out build/demo

pictures: .venv/stamp   ## the pictures of the README and the documentation, taken from a demo of today in Chromium
	$(BIN)/python -m tests.support.take_screenshots

# One process more than there are cores, up to four: many tests wait for a service. A file of tests stays with one process, all that
# want a Kafka broker share one, and the long files come first (tests/conftest.py).
# Tests start many processes that import the same modules: these are compiled once, even where the environment says otherwise.
unexport PYTHONDONTWRITEBYTECODE
CORES   := $(shell getconf _NPROCESSORS_ONLN)
SPREAD  := --dist loadfile --no-loadscope-reorder

test: .venv/stamp   ## all tests, side by side
	$(BIN)/pytest -n $(shell expr $(CORES) + 1) --maxprocesses 4 $(SPREAD)

test-fast: .venv/stamp   ## the tests without services, processes, training, drawn cases or measured costs, for work in between
	$(BIN)/pytest -n $(CORES) --maxprocesses 4 $(SPREAD) -m "not slow"

lint: .venv/stamp   ## ruff: style and faults
	$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/lint-imports

types: .venv/stamp   ## mypy, strict for fingerprint/
	$(BIN)/mypy

notebooks: .venv/stamp   ## the notebooks in JupyterLab
	@$(INSTALL) -r locks/lab.txt
	$(BIN)/jupyter lab notebooks

notebooks-test: .venv/stamp   ## every notebook from top to bottom, as in the tests
	$(BIN)/pytest tests/system/test_notebooks.py

compose-test: .venv/stamp   ## docker-compose.yml with its demo, through restarts, in a browser (docs/how-to/compose.md), ten minutes or so
	$(BIN)/pytest -x tests/system/deployments/compose.py

helm-test: .venv/stamp   ## the chart on the Kubernetes that kubectl reaches (docs/how-to/kubernetes.md), ten minutes or so
	$(BIN)/pytest -x -s tests/system/deployments/kubernetes.py

docs: .venv/stamp   ## the documentation as a site in build/site: references from the code, strict, every link checked
	$(BIN)/python -m pipelines.reference
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

bench: .venv/stamp   ## speed and memory as ratios in one run; writes build/bench.json
	$(BIN)/python -m pipelines.bench

bench-long: .venv/stamp   ## memory of a stream over a simulated week, a million records streamed; 100,000 entities trained; writes build/bench-*.json
	$(BIN)/python -m pipelines.bench.soak

bench-gpu: .venv/stamp   ## the pipeline on a GPU against the CPU; writes docs/gpu-figures.json and the figures in docs/how-to/gpu.md
	timeout 590 $(BIN)/python -m pipelines.bench.gpu --page

gpu: .venv/stamp   ## where a GPU is at hand: its tests, then bench-gpu, ten minutes each at most (docs/how-to/gpu.md)
	timeout 590 $(BIN)/pytest -m gpu -s
	$(MAKE) bench-gpu

# What the images run; what an image installs beside it; make's own. Pins are kept: `make lock UPGRADE=--upgrade` takes the newest.
IMAGE  := kafka confluent triton web deliver postgres s3 enrichment
locked = $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --only-binary :all: --emit-build-options \
  --no-annotate --custom-compile-command "make lock" $(UPGRADE) $(2) -o locks/$(1).txt
with   = pyproject.toml $(foreach extra,$(1),--extra $(extra))

lock: .venv/stamp   ## resolve locks/ again, with hashes (docs/how-to/operate.md); UPGRADE=--upgrade takes the newest versions
	$(call locked,dev,$(call with,$(IMAGE) train scale peers notebooks dev))
	$(call locked,lab,$(call with,lab) -c locks/dev.txt)
	$(call locked,serve,$(call with,$(IMAGE)) -c locks/dev.txt)
	$(call locked,demo,$(call with,web) -c locks/dev.txt)
	$(call locked,train,$(call with,train) -c locks/dev.txt)
	printf 'hatchling\neditables\n' | $(call locked,build,- -c locks/dev.txt)      # editables: an installation that follows a checkout
	cp locks/dev.txt locks/dev-gpu.txt && cp locks/dev.txt locks/serve-gpu-cu12.txt      # keep what can be kept
	$(call locked,dev-gpu,$(call with,gpu $(IMAGE) train scale dev))
	$(call locked,serve-gpu,$(call with,gpu $(IMAGE)) -c locks/dev-gpu.txt)
	$(call locked,train-gpu,$(call with,gpu train) -c locks/dev-gpu.txt)
	echo 'cupy-cuda13x[ctk]' | $(call locked,triton-gpu,- $(call with,train) -c locks/dev-gpu.txt)
	$(call locked,serve-gpu-cu12,$(call with,gpu-cu12 $(IMAGE)))
	echo 'nvidia-pytriton==0.7.0' | $(call locked,triton-server,- --no-deps)

sbom: .venv/stamp   ## whether what is installed is what is locked, and a CycloneDX SBOM of each lock in build/sbom; needs no network
	$(BIN)/python deploy/locks.py $(LOCK)

audit: sbom   ## and its known vulnerabilities, where PyPI's advisories are reached
	$(BIN)/python deploy/audit.py

clean:           ## remove what was built and installed
	rm -rf .venv build dist .mypy_cache .ruff_cache .pytest_cache
