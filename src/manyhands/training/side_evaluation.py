"""Success in simulation beside training: a side process evaluates a snapshot of the weights.

Training waits only for a copy of the weights in host memory; a thread of the main rank writes them,
starts the process, and receives its results.
"""

import json
import pickle
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue

from manyhands.config.commands.eval import EVAL_INFO, EvalCommandConfig, EvaluatedPolicyConfig
from manyhands.config.train import ProcessesConfig, TrainConfig
from manyhands.errors import UserError
from manyhands.evaluation.results_folder import writing
from manyhands.evaluation.rollout import EpisodeResult
from manyhands.launch.background import start_in_background
from manyhands.lerobot_format.policy.folder import PolicyFiles, saved_tensors
from manyhands.observe.progress_line import Metrics
from manyhands.parallel.host_buffers import HostBuffers
from manyhands.parallel.sharded_tensors import gathered
from manyhands.parallel.stop_notice import StopNotice
from manyhands.training.evaluation_process import UNLIMITED
from manyhands.training.evaluation_scores import FOLDER, MAX_VIDEOS, ScoreLog, emptied
from manyhands.training.step.ema import Weights
from manyhands.training.step.learner import Learner
from manyhands.training.step.trial import exit_reason, last_line

PROGRAM = "manyhands.training.evaluation_process"
SNAPSHOT, LOG_FILE = "policy", "log.txt"
POLL_S = 0.2
STOP_S = 10.0
"""How long a stop waits for an evaluation to end."""


@dataclass(frozen=True)
class Job:
    """A snapshot to evaluate."""

    step: int
    files: PolicyFiles


def remove_snapshots(folder: Path) -> None:
    """Remove what evaluations of a run left that was killed."""
    for snapshot in folder.glob(f"*/{SNAPSHOT}"):
        shutil.rmtree(snapshot, ignore_errors=True)


class SideRollouts:
    """Evaluates snapshots one at a time, on the GPU of the main rank or on the CPU."""

    def __init__(
        self, config: TrainConfig, learner: Learner, weights: Weights, run_dir: Path
    ) -> None:
        self._config = config
        self._policy = learner.policy
        self._world = learner.step.world
        *_, self._in_place = weights.values()
        self._folder = run_dir / FOLDER
        self.log = ScoreLog(config)
        self._late: SimpleQueue[tuple[int, Metrics]] = SimpleQueue()
        self.unscored_steps: set[int] = set()
        self._thread: threading.Thread | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._running_step = 0
        self._waiting: Job | None = None
        self._is_stopped = False
        # A file that appears while a folder is removed would keep it.
        self._snapshot_lock = threading.Lock()
        if self._world.is_main:
            remove_snapshots(self._folder)

    def scores(self, step: int) -> Metrics:
        """Collective. Start to evaluate the weights of a step; its scores come later."""
        is_last = step == self._config.num_steps
        is_busy = self._world.broadcast(self._is_running)
        if is_busy and not is_last:
            reason = f"that of step {self._running_step} still runs"
            self.log.messages.put(f"evaluation after step {step} is skipped: {reason}")
            return {}
        with self._in_place():
            # Buffers of its own: those of checkpoints may be filled again while it is written.
            tensors = saved_tensors(self._policy.network)
            copies = gathered(tensors, self._world.is_main, HostBuffers())
        job = Job(step, self._policy.files(copies))
        self.unscored_steps.add(step)
        if is_busy:
            self._waiting = job
        elif self._world.is_main:
            self._start(job)
        return {}

    def late_scores(self) -> list[tuple[int, Metrics]]:
        """Scores that arrived since the last call; none of a step whose evaluation failed."""
        late = emptied(self._late)
        self.unscored_steps -= {step for step, _ in late}
        return late

    def finish(self, stopping: bool) -> bool:
        """Collective. Wait for the last evaluations; return whether a stop request ended them."""
        must_stop = StopNotice(self._world)
        return self._world.on_main(lambda: self._wait(lambda: stopping or must_stop()))

    @property
    def _is_running(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def _wait(self, must_stop: Callable[[], bool]) -> bool:
        while self._is_running or self._waiting is not None:
            if must_stop():
                self._stop()
                return True
            self._lift_limit()
            if not self._is_running and self._waiting is not None:
                self._start(self._waiting)
                self._waiting = None
            assert self._thread is not None
            self._thread.join(POLL_S)
        return False

    def _lift_limit(self) -> None:
        """Let an evaluation that runs use the whole GPU: training has ended."""
        snapshot = self._folder / str(self._running_step) / SNAPSHOT
        with self._snapshot_lock, suppress(OSError):
            (snapshot / UNLIMITED).touch()

    def _stop(self) -> None:
        self._is_stopped = True
        if self._process is not None:
            self._process.kill()
        if self._is_running:
            assert self._thread is not None
            self.log.messages.put(f"evaluation after step {self._running_step} is stopped")
            # It removes the snapshot.
            self._thread.join(STOP_S)

    def _start(self, job: Job) -> None:
        self._running_step = job.step
        self._thread = threading.Thread(
            target=self._run, args=(job,), name="evaluation", daemon=True
        )
        self._thread.start()

    def _run(self, job: Job) -> None:
        folder = self._folder / str(job.step)
        try:
            self._evaluate(job, folder)
            self._receive(job.step, folder)
        except (UserError, OSError) as error:
            self._late.put((job.step, {}))
            if not self._is_stopped:
                self.log.messages.put(f"WARNING: evaluation after step {job.step}: {error}")
        with self._snapshot_lock:
            shutil.rmtree(folder / SNAPSHOT, ignore_errors=True)

    def _evaluate(self, job: Job, folder: Path) -> None:
        with writing(folder):
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
            job.files.write(folder / SNAPSHOT)
        command = [sys.executable, "-m", PROGRAM]
        log, gpu = folder / LOG_FILE, self._world.device.index or 0
        self._process = start_in_background(command, log, gpu, num_compile_threads=1)
        if self._is_stopped:
            self._process.kill()
        self._process.communicate(pickle.dumps(self._request(folder)))
        if self._process.returncode != 0:
            reason = exit_reason(self._process.returncode)
            raise UserError(f"its process {reason}: {last_line(log)}; see {log}")

    def _request(self, folder: Path) -> EvalCommandConfig:
        device, path = self._world.device.type, str(folder / SNAPSHOT)
        return EvalCommandConfig(
            policy=EvaluatedPolicyConfig(path=path, device=device),
            env=self._config.env,
            eval=self._config.eval,
            seed=self._config.seed,
            output_dir=folder,
            max_videos=MAX_VIDEOS,
            launch=ProcessesConfig(num_processes=1),
        )

    def _receive(self, step: int, folder: Path) -> None:
        info = json.loads((folder / EVAL_INFO).read_text(encoding="utf-8"))
        results = [EpisodeResult(index=row.pop("episode_ix"), **row) for row in info["per_episode"]]
        seconds = info["overall"]["eval_s"]
        self._late.put((step, self.log.add(step, results, seconds, f" (step {step})")))
