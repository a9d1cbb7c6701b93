"""Flags of evaluation in simulation."""

from dataclasses import dataclass, field
from pathlib import Path

from manyhands.config.run_dir import unwritable_folder
from manyhands.config.sections.env import EnvConfig
from manyhands.config.sections.eval import EvalConfig
from manyhands.config.train import ProcessesConfig

EVAL_INFO = "eval_info.json"
"""File of results, as LeRobot calls it."""


@dataclass(frozen=True, kw_only=True)
class EvaluatedPolicyConfig:
    """Policy to evaluate."""

    path: str | None = None
    """Run, checkpoint, policy folder or Hub name."""
    revision: str | None = None
    """Revision on the Hub."""
    device: str | None = None
    """cuda or cpu; null: a GPU if there is one."""
    use_ema: bool | None = None
    """Evaluate the averaged weights of a run; null: where it has some."""


@dataclass(frozen=True, kw_only=True)
class EvalCommandConfig:
    """Evaluation."""

    policy: EvaluatedPolicyConfig = field(default_factory=EvaluatedPolicyConfig)
    env: EnvConfig | None = None
    eval: EvalConfig = field(default_factory=EvalConfig)
    seed: int = 1000
    """Seed of the first episode; the others follow."""
    output_dir: Path | None = None
    """Folder for eval_info.json and videos; null: outputs/eval/<date>/<time>_<env>_<policy>."""
    max_videos: int = 10
    """Episodes to film, failures first; 0: none."""
    json: Path | None = None
    """JSON file for the results."""
    launch: ProcessesConfig = field(default_factory=ProcessesConfig)

    def faults(self) -> list[str]:
        """Return every invalid value."""
        processes = self.launch.num_processes
        rules = [
            (self.policy.path is None, "no policy. Set --policy.path=RUN, FOLDER or HUB_NAME"),
            (self.env is None, "no environment. Set --env.type=pusht, aloha, tray or gym"),
            (self.seed < 0, f"--seed={self.seed} must be at least 0"),
            (self.max_videos < 0, f"--max_videos={self.max_videos} must be at least 0"),
            (
                processes is not None and processes < 1,
                f"--launch.num_processes={processes} must be at least 1",
            ),
        ]
        own = [sentence for is_wrong, sentence in rules if is_wrong]
        within = [*(self.env.faults() if self.env else ()), *self.eval.faults()]
        return [*own, *within, *self._unwritable()]

    def _unwritable(self) -> list[str]:
        """Faults of files to write, found before episodes are run for nothing."""
        return [fault for fault in (self._json_fault(), self._output_dir_fault()) if fault]

    def _json_fault(self) -> str | None:
        if self.json is None:
            return None
        folder = self.json.absolute().parent
        fault = unwritable_folder("--json", folder)
        if fault is None and not folder.is_dir():
            return f"--json={self.json}: the folder does not exist"
        if fault is None and self.json.is_dir():
            return f"--json={self.json} is a folder. Name a file"
        return fault

    def _output_dir_fault(self) -> str | None:
        if self.output_dir is None:
            return None
        fault = unwritable_folder("--output_dir", self.output_dir)
        if fault is None and (self.output_dir / EVAL_INFO).exists():
            return f"--output_dir={self.output_dir} already contains an evaluation. Choose another"
        return fault
