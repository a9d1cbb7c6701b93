PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

# The first Python 3.12 at hand: on the path, or of pyenv, which keeps its versions off the path.
IS_312 := 'import sys; sys.exit(sys.version_info[:2] != (3, 12))'
LEROBOT_PYTHON ?= $(shell for python in python3.12 python3 $$HOME/.pyenv/versions/3.12*/bin/python; do \
	$$python -c $(IS_312) 2>/dev/null && echo $$python && break; done)
LEROBOT_VENV := .venv-lerobot
LEROBOT_READY := $(LEROBOT_VENV)/.ready

# Tests start hundreds of processes, each of which would compile every module anew.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test suite gpu-test multi-gpu-test gpu-memcheck gpu-soak kernel-test exactness launch-test
.PHONY: soak interop sim-test track-test slurm-test page-test package-test lint style types docs docs-test
.PHONY: clean

RARELY_IMPORTED := '/tests?/|/transformers/models/|/networkx/|/pip/|/torch/(testing|_inductor)/|/scipy/|/sklearn/|/fontTools/|/mypy/'
# One environment serves every target; it is made anew when what it installs changes.
$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; v = sys.version_info; sys.exit(v < (3, 11) and \
		f"manyhands needs Python 3.11 or newer; $(PYTHON) is {v.major}.{v.minor}. Try: make PYTHON=python3.12")'
	$(PYTHON) -m venv $(VENV)
	@# The pip of an older Python takes twice as long to resolve dependencies.
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile -c constraints.txt -e '.[dev]'
	@# Pip would compile by one core, and all there is. Packages bring files of other Pythons, which are left out.
	@$(BIN)/python -m compileall -q -j 0 -x $(RARELY_IMPORTED) $(VENV)/lib >/dev/null || true
	@touch $(READY)

demo: $(READY)
	$(BIN)/manyhands demo $(DEMO_FLAGS)

# Files of tests are dealt out to two processes more than there are cores, up to six: many tests wait.
NUM_RUNNERS := $(shell echo $$(( $$(nproc) < 4 ? $$(nproc) + 2 : 6 )))
# Types are checked meanwhile: that takes half a minute of one core.
test: style
	@$(MAKE) --no-print-directory --jobs=2 types suite

# Programs that tests start are forked off one that has imported torch; FORK=0 starts new interpreters.
FORK ?= 1
suite: $(READY)
	MANYHANDS_FORK_TESTS=$(FORK) OMP_NUM_THREADS=1 $(BIN)/pytest --numprocesses=$(NUM_RUNNERS) --dist=loadfile --no-loadscope-reorder -p no:logging \
		--max-worker-restart=0 --durations=20

# Compiling is the CPU's work, so several processes share a GPU. Tests that measure memory or time run
# alone, after them. A fault of the GPU kills its process; the report names the test, and the run ends.
NUM_GPU_RUNNERS ?= $(shell echo $$(( $$(nproc) < 6 ? $$(nproc) : 6 )))
gpu-test: $(READY)
	OMP_NUM_THREADS=1 TORCHINDUCTOR_COMPILE_THREADS=2 $(BIN)/pytest -m 'gpu and not gpu_serial' \
		--numprocesses=$(NUM_GPU_RUNNERS) --dist=worksteal --max-worker-restart=0
	$(BIN)/pytest -m 'gpu and gpu_serial'

# Hand-written kernels under a memory checker. Torch's allocator would hide accesses beyond a tensor
# inside its blocks, so every tensor gets an allocation of its own. Torch reports API errors itself.
COMPUTE_SANITIZER ?= compute-sanitizer
KERNEL_TESTS := tests/policies/vision tests/policies/diffusion tests/training/step/test_adam_kernels.py -m kernels --hypothesis-profile=few
gpu-memcheck: $(READY)
	PYTORCH_NO_CUDA_MEMORY_CACHING=1 $(COMPUTE_SANITIZER) --tool=memcheck --padding=1024 \
		--error-exitcode=9 --report-api-errors=no --target-processes=application-only \
		$(BIN)/python -m pytest $(KERNEL_TESTS)

# The same kernels in Triton's interpreter, which needs no GPU.
TRITON := $(VENV)/triton
$(TRITON): $(READY)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --target=$@ triton
kernel-test: $(TRITON)
	PYTHONPATH=$(TRITON) TRITON_INTERPRET=1 OMP_NUM_THREADS=1 $(BIN)/pytest $(KERNEL_TESTS)

# Every strategy and step mode on two or more GPUs of this machine, failures included. Prints a table and
# writes multi_gpu.json with the GPUs, versions and topology, to attach to a bug report.
multi-gpu-test: $(READY)
	$(BIN)/pytest tests/multi_gpu -m multi_gpu

# Eight recipes in the default step mode on one GPU: each switches to the compiled step, is stopped, resumed,
# killed and resumed. Several run at a time, because compiling is bound by the CPU. Then one long run alone, on
# PushT in SOAK_DATASET. Prints a table and writes gpu_soak_results/gpu_soak.json.
SOAK_PROCESSES ?= 4
SOAK_SECONDS ?= 15
SOAK_MINUTES ?= 9
SOAK_DATASET ?=
gpu-soak: $(READY)
	rm -rf gpu_soak_results
	code=0; \
	$(BIN)/pytest tests/gpu_soak/test_recipes.py -m gpu_soak --numprocesses=$(SOAK_PROCESSES) --dist=worksteal \
		--soak-seconds=$(SOAK_SECONDS) || code=$$?; \
	$(BIN)/pytest tests/gpu_soak/test_long_run.py -m gpu_soak --soak-dataset='$(SOAK_DATASET)' \
		--soak-minutes=$(SOAK_MINUTES) || code=$$?; \
	exit $$code

# Losses of all strategies, of all policies, at 1 to 4 processes; fifteen minutes on two cores.
exactness: $(READY)
	$(BIN)/pytest -m exact

# Every command line that guides give, several machines as processes and as network namespaces (needs root).
launch-test: $(READY)
	OMP_NUM_THREADS=1 $(BIN)/pytest tests/cli tests/cluster tests/engine tests/examples tests/training -m 'launchers and not slurm'

# Tests that take long, in new interpreters. Then 100 times kill -9, of any process at any moment, over ACT and Diffusion Policy, single, DDP and FSDP2;
# fifteen minutes on two cores. Another SEED kills elsewhere.
SEED ?= 0
soak: $(READY)
	OMP_NUM_THREADS=1 $(BIN)/pytest -m soak
	$(BIN)/manyhands bench resume --kills=100 --seed=$(SEED) $(SOAK_FLAGS)

# LeRobot pins another torch and another PyAV, so it lives apart.
$(LEROBOT_READY): interop/requirements.txt
	@$(or $(LEROBOT_PYTHON),false) -c $(IS_312) 2>/dev/null || \
		{ echo "make interop installs LeRobot 0.6.1, which needs Python 3.12, and there is none." \
		"Try: make interop LEROBOT_PYTHON=/path/to/python3.12" >&2; exit 1; }
	$(LEROBOT_PYTHON) -m venv $(LEROBOT_VENV)
	$(LEROBOT_VENV)/bin/python -m pip install --quiet --upgrade pip
	$(LEROBOT_VENV)/bin/python -m pip install --quiet --disable-pip-version-check -r interop/requirements.txt
	@touch $(LEROBOT_READY)

interop: $(READY) $(LEROBOT_READY)
	OMP_NUM_THREADS=1 $(BIN)/pytest tests/interop -m interop --timeout=900

# MuJoCo renders without a display by EGL or OSMesa, which come from the distribution's packages.
SIM_READY := $(VENV)/.sim-ready
$(SIM_READY): $(READY)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[sim]'
	@touch $(SIM_READY)

# Evaluation with every simulator there is; those of ALOHA are large.
sim-test: $(SIM_READY)
	OMP_NUM_THREADS=1 $(BIN)/pytest tests/sim tests/evaluation tests/cli/test_eval.py

TRACK_READY := $(VENV)/.track-ready
$(TRACK_READY): $(READY)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[track]'
	@touch $(TRACK_READY)

# Every tracker there is, killed and resumed, with servers on this machine.
track-test: $(TRACK_READY)
	OMP_NUM_THREADS=1 $(BIN)/pytest tests/observe/trackers tests/training/test_tracking.py \
		tests/training/test_tracking_process.py -m 'soak or not soak'

# SLURM comes from the distribution's packages; its daemons live in a temporary folder, as long as the
# tests. Where it cannot be had there is nothing to test.
slurm-test: $(READY)
	@sh tests/cluster/install_slurm.sh || { code=$$?; [ $$code = 3 ] || exit $$code; exit 0; } && \
	OMP_NUM_THREADS=1 timeout --kill-after=10 600 $(BIN)/pytest tests/cluster -m slurm --durations=0

# Pages in a headless Chromium of the distribution, at the widths of a desktop and of phones. Skipped without one.
page-test: $(READY)
	$(BIN)/pytest tests/report -m browser

# Wheel and source distribution, installed into empty environments.
package-test: $(READY)
	$(BIN)/pytest tests/packaging -m package

lint: style types

style: $(READY)
	$(BIN)/ruff check
	$(BIN)/ruff format --check

types: $(READY)
	$(BIN)/mypy

# The reference of commands and flags, from the schema, and the SLURM script of the guide.
docs: $(READY)
	$(BIN)/python tools/cli_reference.py
	$(BIN)/python tools/api_reference.py
	$(BIN)/python tools/tutorial_notebook.py
	$(BIN)/python tools/example_scripts.py

# What runs the notebook of the tutorial.
NOTEBOOK_READY := $(VENV)/.notebook-ready
$(NOTEBOOK_READY): $(READY)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt nbclient ipykernel
	@touch $@

# Every command and Python block of README, docs and examples in its CPU form; prints how many ran, and how many
# are marked with what they need. make test checks links, anchors, flags and marks only.
docs-test: $(NOTEBOOK_READY)
	OMP_NUM_THREADS=1 $(BIN)/pytest tests/docs -m 'documents or not documents' \
		--numprocesses=$(NUM_RUNNERS) --dist=worksteal

clean:
	rm -rf $(VENV) $(LEROBOT_VENV) build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis src/*.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
