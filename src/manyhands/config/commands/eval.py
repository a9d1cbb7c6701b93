"""Flags of evaluation, in simulation and on recorded episodes."""

from dataclasses import dataclass, field
from pathlib import Path

from manyhands.config.commands.policy_changes import names_of_fields
from manyhands.config.files.config_files import find_policy_folder
from manyhands.config.paths.output import folder_fault, json_faults
from manyhands.config.schema.decoding import Tree
from manyhands.config.schema.flag_fields import TAKES_OTHERS
from manyhands.config.sections.env import EnvConfig
from manyhands.config.sections.eval import EvalConfig
from manyhands.config.sections.open_loop import EvaluatedDatasetConfig, OpenLoopConfig
from manyhands.config.train import ProcessesConfig

EVAL_INFO = "eval_info.json"
"""File of results, as LeRobot calls it."""
COMPARISON_FILE = "comparison.json"
RESULT_FILES = (EVAL_INFO, COMPARISON_FILE)
DEFAULT_MAX_VIDEOS = 10


@dataclass(frozen=True, kw_only=True)
class EvaluatedPolicyConfig:
    """Policy to evaluate."""

    path: str | None = None
    """Run, checkpoint, policy folder or Hub name."""
    revision: str | None = None
    """Revision on the Hub."""
    device: str | None = None
    """cuda, cuda:N, cpu or mps (Apple GPUs, untested); null: that of training, if it is here."""
    use_ema: bool | None = None
    """Evaluate the averaged weights of a run; null: where it has some."""
    changes: Tree = field(default_factory=dict, metadata={TAKES_OTHERS: names_of_fields})
    """Values of `--policy.<field>` for fields of the policy's own config."""


@dataclass(frozen=True, kw_only=True)
class EvalCommandConfig:
    """Flags of an evaluation."""

    policy: EvaluatedPolicyConfig = field(default_factory=EvaluatedPolicyConfig)
    env: EnvConfig | None = None
    dataset: EvaluatedDatasetConfig = field(default_factory=EvaluatedDatasetConfig)
    compare: list[str] | None = None
    """Two policies to evaluate on the same seeds, or two results to compare: [A,B]."""
    eval: EvalConfig = field(default_factory=EvalConfig)
    open_loop: OpenLoopConfig = field(default_factory=OpenLoopConfig)
    seed: int = 1000
    """Seed of the first episode, the others follow; seed of the noise without a simulation."""
    rename_map: dict[str, str] = field(default_factory=dict)
    """The policy's input for an observation of the environment or dataset, for each other name."""
    output_dir: Path | None = None
    """Folder for results and videos; null: outputs/eval/<date>/<time>_<job_name>."""
    job_name: str | None = None
    """Name of the evaluation in results; null: <env>_<policy>."""
    max_videos: int = DEFAULT_MAX_VIDEOS
    """Episodes to film, failures first; 0: none."""
    json: Path | None = None
    """JSON file for the results."""
    launch: ProcessesConfig = field(default_factory=ProcessesConfig)

    @property
    def compares_results(self) -> bool:
        """Whether --compare names files or folders with results, so that nothing is run."""
        return bool(self.compare) and all(has_results(Path(each)) for each in self.compare or ())

    def faults(self) -> list[str]:
        """Return every invalid value."""
        processes = self.launch.num_processes
        rules = [
            (self.seed < 0, f"--seed={self.seed} must be at least 0"),
            (self.max_videos < 0, f"--max_videos={self.max_videos} must be at least 0"),
            (
                processes is not None and processes < 1,
                f"--launch.num_processes={processes} must be at least 1",
            ),
        ]
        own = [sentence for is_wrong, sentence in rules if is_wrong]
        sections = (self.env, self.eval, self.open_loop)
        return [
            *(self._comparison_faults() if self.compare is not None else self._policy_faults()),
            *self._scene_faults(),
            *own,
            *(fault for section in sections if section for fault in section.faults()),
            *self._unwritable(),
        ]

    def _policy_faults(self) -> list[str]:
        is_set = self.policy.path is not None
        return [] if is_set else ["no policy. Set --policy.path=RUN, FOLDER or HUB_NAME"]

    def _comparison_faults(self) -> list[str]:
        named = self.compare or []
        results = [each for each in named if has_results(Path(each))]
        rules = [
            (len(named) != 2, f"--compare={','.join(named)} must name two, as --compare A B"),
            (
                self.policy.path is not None,
                f"--policy.path={self.policy.path} has no effect with --compare. Remove it",
            ),
            (
                len(results) == 1,
                f"--compare: {''.join(results[:1])} has results, the other one has not. Name two "
                "policies or two results",
            ),
            (
                self.dataset.is_named,
                "--compare is for episodes in simulation. Remove --dataset",
            ),
            (
                self.eval.expected_success is not None,
                "--eval.expected_success is for one policy and has no effect with --compare. "
                "Remove it",
            ),
        ]
        return [
            *(sentence for is_wrong, sentence in rules if is_wrong),
            *(
                f"--{flag} has no effect: --compare names results, and nothing is run. Remove it"
                for flag in self._flags_of_runs()
                if len(results) == 2
            ),
        ]

    def _flags_of_runs(self) -> list[str]:
        """Flags that say how policies are run."""
        sections = {"env": self.env, "rename_map": self.rename_map, "job_name": self.job_name}
        named = [name for name, value in sections.items() if value]
        return [*named, *(f"policy.{name}" for name in self.policy.changes)]

    def _scene_faults(self) -> list[str]:
        """What is wrong with where the policy acts: in simulation or on recorded episodes."""
        has_data = self.dataset.is_named
        nowhere = self.env is None and not has_data and not self.compares_results
        rules = [
            (
                nowhere,
                "no environment. Set --env.type=pusht, aloha, tray or gym; or, to compare with "
                "recorded actions, --dataset.root=FOLDER",
            ),
            (
                self.env is not None and has_data and self.compare is None,
                "--env and --dataset exclude each other: simulation or recorded episodes",
            ),
            (
                not has_data and self.dataset.episodes is not None,
                "--dataset.episodes needs --dataset.root=FOLDER or --dataset.repo_id=NAME",
            ),
            (
                not has_data and self.open_loop != OpenLoopConfig(),
                "--open_loop needs --dataset.root=FOLDER: recorded episodes",
            ),
            (
                has_data and self.max_videos != DEFAULT_MAX_VIDEOS,
                "--max_videos is for episodes in simulation and has no effect with --dataset",
            ),
            (
                has_data and self.eval != EvalConfig(),
                "--eval is for episodes in simulation and has no effect with --dataset",
            ),
        ]
        found = [sentence for is_wrong, sentence in rules if is_wrong]
        return [*found, *(self.dataset.naming_faults() if has_data else ())]

    def _unwritable(self) -> list[str]:
        """Faults of files to write, found before episodes are run for nothing."""
        fault = self._output_dir_fault()
        return [*json_faults(self.json), *([] if fault is None else [fault])]

    def _output_dir_fault(self) -> str | None:
        if self.output_dir is None:
            return None
        fault = folder_fault("--output_dir", self.output_dir)
        if fault is None and any((self.output_dir / file).exists() for file in RESULT_FILES):
            return f"--output_dir={self.output_dir} already contains an evaluation. Choose another"
        return fault


def has_results(path: Path) -> bool:
    """Whether a path is a file of results, or a folder with one and without a policy."""
    if path.is_dir():
        return (path / EVAL_INFO).is_file() and find_policy_folder(path) is None
    return path.is_file()
