"""Runs a trial of the compiled step in a separate process, while the run trains.

A CUDA fault cannot be caught in its own process. So a process with its own weights and optimizer
compiles the kernels, compares and times them; the run loads them only after that.
"""

import pickle
import subprocess
import sys
import threading
import time
from dataclasses import asdict, dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any

import torch

from manyhands import units
from manyhands.config.policies.base import PolicyConfig
from manyhands.config.sections.execution import ParallelismConfig
from manyhands.config.train import TrainConfig
from manyhands.cores import num_cores
from manyhands.data.loading.stream import BatchSplit
from manyhands.launch.background import start_in_background
from manyhands.launch.environment import compiled_kernels_dir
from manyhands.lerobot_format.policy.folder import BASE, REVISION, Settings
from manyhands.lerobot_format.policy.processors import Processors
from manyhands.training.step.cuda_graph import input_signature
from manyhands.training.step.train_step import StepInputs, TrainStep
from manyhands.training.step.verdict import Verdict, Verdicts, trial_key

PROGRAM = "manyhands.training.step.trial_process"
COMPILER = "torch._inductor.compile_fx"
MAX_COMPILE_THREADS = 8
MAX_TRIAL_S = 1800.0
RESERVED_BYTES = 2 << 30
"""GPU memory for the CUDA context of the other process, and left to the run."""
OUT_OF_MEMORY = "out of memory"
FORGOTTEN = (
    *("device", "pretrained_path", "pretrained_revision"),
    *("push_to_hub", "repo_id", "private", "tags", "license"),
)
"""Settings of a policy that do not affect what a step computes."""
FORGOTTEN_PREFIXES = ("optimizer_", "scheduler_")
"""Defaults of the optimizer and of the schedule, which are facts of their own."""
FORGOTTEN_OF_ADAPTERS = (BASE, REVISION, "inference_mode", "peft_version")
"""The same for adapters; files of a checkpoint always have them for inference."""


@dataclass(frozen=True, kw_only=True)
class TrialRequest:
    """The data that another process needs to run the same step."""

    config: TrainConfig
    policy: PolicyConfig
    processors: Processors
    adapters: Settings | None
    split: BatchSplit
    inputs: StepInputs
    max_bytes: int
    """GPU memory that the trial may use."""
    verdicts: Verdicts
    """Where the verdict goes."""
    key: str
    only: int | None = None
    """Which class of modules to compile into the cache, without any comparison; None tries all."""


class Trial:
    """A trial of the compiled step that does not block the run."""

    def __init__(self, config: TrainConfig, step: TrainStep) -> None:
        self._config = config
        self._step = step
        self._thread: threading.Thread | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._is_closed = False
        self._key = ""
        self._failure: Verdict | None = None

    @property
    def verdicts(self) -> Verdicts:
        """The verdicts of this machine."""
        return Verdicts(compiled_kernels_dir())

    def verdict(self, inputs: StepInputs) -> Verdict | None:
        """The verdict on steps with such inputs; None if there is none."""
        self._key = self._key or trial_key(kernel_facts(self._config, self._step, inputs))
        return self._failure or self.verdicts.read(self._key)

    @property
    def is_running(self) -> bool:
        """Whether a trial runs in this process."""
        return self._thread is not None and self._thread.is_alive()

    def start(self, inputs: StepInputs) -> str | None:
        """Start a trial; return why that is impossible, if it is."""
        device = self._step.world.device
        peak = torch.cuda.max_memory_reserved(device)
        free = torch.cuda.mem_get_info(device)[0]
        if free < peak + RESERVED_BYTES:
            return (
                f"a trial needs {units.num_bytes(peak + RESERVED_BYTES)} of GPU memory, and "
                f"{units.num_bytes(free)} are free"
            )
        # Here and not in the thread, which must not use the GPU while a graph is captured.
        given = inputs.mapped(lambda each: each.to("cpu"))
        request = self._request(given, min(2 * peak, free - RESERVED_BYTES))
        self._thread = threading.Thread(target=self._run, args=(request,), daemon=True)
        self._thread.start()
        return None

    def begin_switch(self, verdict: Verdict) -> None:
        """Record that the run is about to switch."""
        self.verdicts.begin_switch(self._key, verdict)

    def end_switch(self, verdict: Verdict) -> None:
        """Record that the switch finished, with the results of the compiled step."""
        self.verdicts.end_switch(self._key, verdict)

    def close(self) -> None:
        """Stop a running trial."""
        self._is_closed = True
        if self._process is not None:
            self._process.kill()
        if self._thread is not None:
            self._thread.join()

    def _request(self, inputs: StepInputs, max_bytes: int) -> TrialRequest:
        step = self._step
        return TrialRequest(
            config=trial_config(self._config, step.world.precision),
            policy=replace(step.policy.config.without_downloads(), pretrained_path=None),
            processors=step.policy.processors,
            adapters=step.policy.adapters,
            split=step.split,
            inputs=inputs,
            max_bytes=max_bytes,
            verdicts=self.verdicts,
            key=self._key,
        )

    def _run(self, request: TrialRequest) -> None:
        """Run the trial to its end; a trial that dies counts as a failed verdict."""
        log = self.verdicts.log_path(self._key)
        began = time.monotonic()
        self._process = start_trial(log, self._step.world.device.index or 0)
        if self._is_closed:
            self._process.kill()
        # The run needs the compiler when it switches; importing it now shortens the switch.
        import_module(COMPILER)
        try:
            self._process.communicate(pickle.dumps(request), timeout=MAX_TRIAL_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
        code = self._process.wait()
        verdict = self.verdicts.read(self._key) if code == 0 else None
        if verdict is not None and not (verdict.is_faster or verdict.is_final):
            self._failure = verdict
            self.verdicts.remove(self._key)
        if self._is_closed or verdict is not None:
            return
        last = last_line(log)
        reason = f"its trial {exit_reason(code)}: {last}; see {log}"
        seconds = time.monotonic() - began
        self._failure = Verdict(is_faster=False, reason=reason, trial_s=seconds)
        if OUT_OF_MEMORY not in last:
            # Memory may be free at another time; any other fault will recur.
            self.verdicts.write(self._key, self._failure)


def start_trial(log: Path, gpu: int, num_processes: int = 1) -> subprocess.Popen[bytes]:
    """Start a process that reads a request, one of `num_processes` in parallel."""
    # As many as there are cores: at the lowest priority they yield to the run.
    num_threads = min(MAX_COMPILE_THREADS, num_cores() // num_processes)
    return start_in_background([sys.executable, "-m", PROGRAM], log, gpu, max(1, num_threads))


def trial_config(config: TrainConfig, precision: str) -> TrainConfig:
    """The same step in a single process that computes in the precision of the run."""
    assert config.policy is not None
    accelerator = replace(config.accelerator, mixed_precision=precision)
    # The process sees one GPU, whatever its index in the run.
    policy = replace(config.policy, device="cuda")
    return replace(config, policy=policy, accelerator=accelerator, parallelism=ParallelismConfig())


def kernel_facts(config: TrainConfig, step: TrainStep, inputs: StepInputs) -> dict[str, Any]:
    """Collect the facts that determine the kernels of a step."""
    assert config.optimizer is not None
    policy, optimizer = asdict(step.policy.config.without_downloads()), asdict(config.optimizer)
    del optimizer["lr"]  # Kernels read it from the device.
    names = [sorted(group) for group in inputs.groups]
    adapters = step.policy.adapters or {}
    return {
        "policy": {name: value for name, value in policy.items() if is_computed_with(name)},
        "type": step.policy.config.type,
        "adapters": {
            name: value for name, value in adapters.items() if name not in FORGOTTEN_OF_ADAPTERS
        },
        "inputs": [names, [str(each) for each in input_signature(inputs)]],
        "micro_batches": step.split.num_micro_batches,
        "ranks": step.split.num_ranks,
        "precision": [step.world.precision, config.dtype],
        "optimizer": [type(config.optimizer).__name__, optimizer],
        "ema": config.ema.enable,
        "augmentation": str(config.dataset.image_transforms),
        "gpu": step.world.placements[step.world.rank].name,
    }


def is_computed_with(setting: str) -> bool:
    """Whether a setting of a policy may affect what a step computes."""
    return setting not in FORGOTTEN and not setting.startswith(FORGOTTEN_PREFIXES)


def exit_reason(code: int) -> str:
    """Describe how a process ended, from its exit code."""
    return f"was killed by signal {-code}" if code < 0 else f"failed with exit code {code}"


def last_line(log: Path) -> str:
    """The last non-empty line of a log."""
    try:
        lines = log.read_text(encoding="utf-8", errors="replace").split("\n")
    except OSError:
        return "it left no log"
    return next((line.strip() for line in reversed(lines) if line.strip()), "it printed nothing")
