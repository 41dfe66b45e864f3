# `make` alone says what there is.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
PYTHON ?= $(firstword $(shell command -v python3.11 python3))
# uv trusts the machine's certificates, as pip and curl do.
export UV_SYSTEM_CERTS ?= 1

REQUIREMENTS := requirements/dev.txt requirements/bundled-model.txt pyproject.toml
STAMP := .venv/installed-$(shell cat $(REQUIREMENTS) | sha256sum | cut -c 1-16)

.PHONY: help setup check format test test-gpu bench bench-cpu bench-gpu demo demo-stop cluster images crd lock

help: ## Say what there is.
	@sed -n 's/^\([a-z-]*\):[^#]*## \(.*\)/\1|\2/p' $(MAKEFILE_LIST) | column --table --separator '|'

setup: $(STAMP) ## Install what development needs into .venv (once).

$(STAMP): dev/setup.sh
	@dev/setup.sh $(PYTHON)
	@touch $@

check: setup ## Check format, style, types and which package may import which.
	.venv/bin/ruff format --check .
	.venv/bin/ruff check .
	.venv/bin/mypy
	.venv/bin/lint-imports

format: setup ## Format the code and sort imports.
	.venv/bin/ruff check --fix .
	.venv/bin/ruff format .

# The first build of the cluster's programs takes minutes: it begins while the tests run that need no cluster.
test: check ## Check, then run all tests; needs root for the cluster. Tests of GPUs have a target of their own.
	@setsid nice -n 19 dev/cluster/build.sh > /dev/null 2>&1 & trap "kill -- -$$! 2> /dev/null || true" EXIT; \
	.venv/bin/pytest -m 'not gpu'

test-gpu: setup ## Run the kernels and the GPU's model runner natively on an NVIDIA GPU; writes a report.
	@mkdir -p out
	.venv/bin/pytest tests/kernels --junitxml out/test-gpu.xml

bench: setup bench-cpu ## Measure the scheduler's own cost, and what bench-cpu measures.
	.venv/bin/python -m bench.scheduler

bench-cpu: setup ## Measure output tokens/s on the CPU beside transformers' static batching.
	.venv/bin/python -m bench.cpu

bench-gpu: setup ## Measure the standard workloads and every kernel on an NVIDIA GPU, beside the floor; into bench/results.
	.venv/bin/python -m bench.gpu
	.venv/bin/python -m bench.gpu_kernels bench/results/gpu-kernels.json

demo: setup ## Show all of it: a cluster, the operator, a model, many users, replicas that follow the load.
	@.venv/bin/python -m dev.demo

demo-stop: setup ## Remove all that the demo started.
	@.venv/bin/python -m dev.demo stop

cluster: setup ## Start a Kubernetes: OCTAVO_CONTEXT's, else kind's, else the embedded one.
	@.venv/bin/python -m dev.cluster start

images: setup ## Build both images for CPU nodes; DEVICE=cuda builds them for GPU nodes.
	@.venv/bin/python -m dev.images $(DEVICE)

crd: setup ## Write the CustomResourceDefinition anew from the operator's models.
	.venv/bin/python -m octavo_operator.api.crd charts/octavo/files/crd-inferenceservice.yaml

COMPILE := .venv/bin/uv pip compile pyproject.toml --python-version 3.11 --generate-hashes --no-header --no-annotate --quiet
lock: setup ## Write requirements/ anew from pyproject.toml; versions change only where they must.
	$(COMPILE) --extra operator --output-file requirements/operator.txt
	$(COMPILE) --extra engine --output-file requirements/engine.txt
	$(COMPILE) --extra operator --extra engine --extra dev --output-file requirements/dev.txt
