# Everything a user or developer calls. `make help` lists it.
PYTHON ?= python3
AREA ?=
export PYTHONDONTWRITEBYTECODE = 1

.PHONY: help up dist test test-unit test-full bench lint requirements reference clean

help: ## Show what there is
	@sed -n 's/^\([a-z-]*\):.*## /\1	/p' $(MAKEFILE_LIST) | expand -t 16

# WORKSPACE=, MEM=, CPUS= and AGENTBOX_* reach the CLI through the environment.
up: ## Turn this machine into a running agent box (WORKSPACE=, default ~/agentbox-workspace)
	@$(PYTHON) tools/bootstrap.py user
	@.venv/bin/agentbox up

test: ## Run all tests on real parts (AREA=<role or stage> for a part)
	@$(PYTHON) tools/bootstrap.py dev
	@.venv/bin/python -m tests.run $(AREA)

test-unit: ## Run the unit tests
	@$(PYTHON) tools/bootstrap.py dev
	@.venv/bin/python -m tests.run unit

test-full: ## Run all tests on every platform, with the long fault loops
	@$(PYTHON) tools/bootstrap.py dev
	@.venv/bin/python -m tests.run --full $(AREA)

bench: ## Measure against the field's usual module (GROUPS="unchanged create box image", RUNS=5)
	@$(PYTHON) tools/bootstrap.py dev
	@.venv/bin/python -m benchmarks $(if $(RUNS),--runs $(RUNS)) $(GROUPS)

lint: ## Run the linters
	@$(PYTHON) tools/bootstrap.py dev
	@.venv/bin/python -m tests.run lint

dist: ## Build the wheel and the collection tarball that holds it, into dist/
	@$(PYTHON) tools/bootstrap.py dev
	@.venv/bin/python tools/dist.py

requirements: ## Pin the dependencies anew
	@$(PYTHON) tools/bootstrap.py dev
	@cd requirements && for name in build agentbox box node dev bench; do \
	  ../.venv/bin/pip-compile --quiet --upgrade --generate-hashes --allow-unsafe --strip-extras \
	    --no-emit-index-url --no-emit-find-links --output-file $$name.txt $$name.in || exit 1; done

reference: ## Write the reference pages in docs/ from what the program reads
	@$(PYTHON) tools/bootstrap.py dev
	@.venv/bin/python tools/reference.py

clean: ## Remove what the tests and the set-up made in this directory
	rm -rf .venv .cache build dist .mypy_cache .pytest_cache .ruff_cache
