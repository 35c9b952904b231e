# Two commands are all there is: `make demo` and `make test`. `make help` lists the rest.
PYTHON ?= python3
BIN    := .venv/bin
CONSTRAINTS ?= constraints.txt
EXTRAS ?= train,dev,kafka,confluent,s3,postgres,triton,scale,web,deliver,peers,notebooks

.DEFAULT_GOAL := help
.PHONY: help demo test lint types notebooks notebooks-test compose-test helm-test bench bench-long bench-gpu gpu lock clean

help:            ## this list
	@grep -hE '^[a-z-]+: .*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## */\t/' | expand -t 14

# The stamp is newer than what it was made from, or the install runs again.
.venv/stamp: pyproject.toml $(CONSTRAINTS)
	@sh tests/services/python.sh "$(PYTHON)"
	@echo "installing into .venv (torch is the large part) ..."
	@$(BIN)/pip install --quiet --disable-pip-version-check -c $(CONSTRAINTS) -e '.[$(EXTRAS)]'
	@touch $@

demo: .venv/stamp   ## from records to alerts on one machine, about a minute
	@$(BIN)/fingerprint demo --out build/demo

test: .venv/stamp   ## the tests, on up to four cores; then those that want the machine for themselves
	$(BIN)/pytest -n auto --maxprocesses 4 --dist loadfile -m "not alone"
	$(BIN)/pytest -m alone

lint: .venv/stamp   ## ruff: style and faults
	$(BIN)/ruff check . && $(BIN)/ruff format --check .

types: .venv/stamp   ## mypy, strict for fingerprint/
	$(BIN)/mypy

notebooks: .venv/stamp   ## the notebooks in JupyterLab
	@$(BIN)/pip install --quiet --disable-pip-version-check -c $(CONSTRAINTS) -e '.[lab]'
	$(BIN)/jupyter lab notebooks

notebooks-test: .venv/stamp   ## every notebook from top to bottom, as in the tests
	$(BIN)/pytest tests/test_notebooks.py

compose-test: .venv/stamp   ## docker-compose.yml with its demo, through restarts, in a browser (docs/operate.md), ten minutes or so
	$(BIN)/pytest -x tests/deploy/compose.py

helm-test: .venv/stamp   ## the chart on the Kubernetes that kubectl reaches (docs/operate.md), ten minutes or so
	$(BIN)/pytest -x -s tests/deploy/kubernetes.py

bench: .venv/stamp   ## speed and memory as ratios in one run; writes build/bench.json
	$(BIN)/python -m pipelines.bench

bench-long: .venv/stamp   ## memory of a stream over a simulated day; 100,000 entities trained; writes build/bench-*.json
	$(BIN)/python -m pipelines.bench_long

LOCK = uv pip compile pyproject.toml --universal --python-version 3.11 --no-annotate --no-header -q
SERVES := kafka confluent triton web deliver postgres s3 scale dev

bench-gpu: .venv/stamp   ## the road on a GPU against the CPU; writes docs/gpu-figures.json and its table in docs/gpu.md
	timeout 590 $(BIN)/python -m pipelines.bench_gpu --page

gpu: .venv/stamp   ## where a GPU is at hand: its tests, then bench-gpu, ten minutes each at most (docs/gpu.md)
	timeout 590 $(BIN)/pytest -m gpu -s
	$(MAKE) bench-gpu

lock: .venv/stamp   ## resolve constraints.txt and those with a GPU anew (needs uv)
	$(LOCK) --upgrade $(foreach extra,train $(SERVES) notebooks lab peers,--extra $(extra)) -o constraints.txt
	cp constraints.txt constraints-gpu.txt && cp constraints.txt constraints-gpu-cu12.txt      # keep what can be kept
	$(LOCK) $(foreach extra,gpu train $(SERVES),--extra $(extra)) -o constraints-gpu.txt
	$(LOCK) $(foreach extra,gpu-cu12 $(SERVES),--extra $(extra)) -o constraints-gpu-cu12.txt

clean:           ## remove what was built and installed
	rm -rf .venv build dist .mypy_cache .ruff_cache .pytest_cache
