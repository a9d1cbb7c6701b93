"""A comparison from its flags to its files: two evaluations are run, or read from files."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from manyhands.config.commands.eval import (
    COMPARISON_FILE,
    EvalCommandConfig,
    EvaluatedPolicyConfig,
)
from manyhands.errors import UserError
from manyhands.evaluation.comparison import Comparison, compare
from manyhands.evaluation.evaluate import Evaluator
from manyhands.evaluation.evaluated_policy import load_evaluated
from manyhands.evaluation.results_file import read_results, refuse_unlike
from manyhands.evaluation.results_folder import attempt, named, results_folder, write_document
from manyhands.evaluation.run import (
    Evaluation,
    evaluated_folder,
    finished_episodes,
    placed,
    written_evaluation,
)

SIDES = ("a", "b")


@dataclass(frozen=True)
class ComparedPolicies:
    """A comparison, and what was compared."""

    names: tuple[str, str]
    """Policies or files A and B."""
    comparison: Comparison
    num_crashed: int
    """Episodes whose environment crashed; they count as failures."""
    output_dir: Path | None
    """Where the results of both lie; None for results that were there before."""
    job_name: str | None = None
    fault: UserError | None = None
    """Why files of results could not be written."""

    def document(self) -> dict[str, Any]:
        """The comparison for programs."""
        sides = {"a": self.names[0], "b": self.names[1]}
        return sides | named(self.job_name) | self.comparison.document()


def compare_files(config: EvalCommandConfig) -> ComparedPolicies:
    """Compare two finished evaluations."""
    a, b = (read_results(Path(each)) for each in config.compare or ())
    refuse_unlike(a, b)
    crashed = sum(result.error is not None for result in (*a.results, *b.results))
    names = (str(a.file), str(b.file))
    found = ComparedPolicies(names, compare(a.results, b.results), crashed, config.output_dir)
    return found if config.output_dir is None else written(config.output_dir, found)


def run_comparison(config: EvalCommandConfig) -> ComparedPolicies | None:
    """Evaluate both policies as one of the ranks; the main one returns the comparison."""
    folders = [_find(config.policy, each) for each in config.compare or ()]
    # What is wrong with the second is reported before the episodes of the first.
    policies = [load_evaluated(folder, config) for folder in folders]
    for policy in policies:
        assert config.env is not None
        Evaluator(policy, config.env, config.eval, config.seed)
    with placed(policies, config.policy.device) as world:
        parent = world.on_main(lambda: results_folder(config, policies[0]))
        found: list[Evaluation | None] = []
        for side, folder, policy in zip(SIDES, folders, policies, strict=True):
            own = replace(config, output_dir=parent / side)
            episodes = finished_episodes(own, policy, world)
            found.append(written_evaluation(own, folder, episodes, world))
    done = [each for each in found if each is not None]
    if not done:
        return None
    crashed = sum(result.error is not None for each in done for result in each.results)
    names = (str(folders[0]), str(folders[1]))
    faults = [each.fault for each in done if each.fault is not None]
    comparison = compare(*(each.results for each in done))
    compared = ComparedPolicies(names, comparison, crashed, parent, config.job_name, *faults[:1])
    return written(parent, compared)


def _find(config: EvaluatedPolicyConfig, path: str) -> Path:
    try:
        return evaluated_folder(replace(config, path=path))
    except UserError as error:
        raise UserError(f"--compare: {error}") from None


def written(folder: Path, compared: ComparedPolicies) -> ComparedPolicies:
    """The comparison with its `comparison.json` written, or why it could not be."""
    _, fault = attempt(lambda: write_document(folder / COMPARISON_FILE, compared.document()))
    return replace(compared, fault=compared.fault or fault)
