"""The error message of a dataset with faults, and the ways out."""

from dataclasses import replace

from manyhands.data.checking.faults import faults_of, num_faults
from manyhands.data.checking.finding import CheckResult, counted
from manyhands.data.checking.remedies import Avoidance, remedies


def rejection(result: CheckResult, avoidance: Avoidance | None = None, limit: int = 5) -> str:
    """The error message of a dataset with faults, and the ways out, ready to paste."""
    bad = [finding for finding in result.findings if finding.severity == "bad"]
    faults = faults_of(bad)
    share = f", in {len(result.bad_episodes)} of {counted(result.num_episodes, 'episode')}"
    where = share if result.bad_episodes else ""
    lines = [f"the dataset in {result.root} has {counted(num_faults(bad), 'fault')}{where}:"]
    lines += [f"  {fault.text}" for fault in faults[:limit]]
    is_complete = len(faults) <= limit
    if not is_complete:
        lines.append(f"  and {len(faults) - limit} more")
    wanted = replace(avoidance or Avoidance(), lists_all=is_complete)
    return "\n".join([*lines, *remedies(result, wanted)])
