"""Write scripts/train_slurm_multi_node.sh as `manyhands launch slurm` writes a job script.

Run `make docs`, or `python tools/example_scripts.py`.
"""

from pathlib import Path

from manyhands.config.launch.slurm import SlurmConfig
from manyhands.launch.job import Job
from manyhands.launch.slurm import sbatch_script

ROOT = Path(__file__).resolve().parents[1]
SCRIPT = Path("scripts", "train_slurm_multi_node.sh")
OWN = ["--nodes=2", "--gpus_per_node=4", "--partition=gpu", f"--script={SCRIPT}"]
FLAGS = ["--config=configs/base_config.yaml", "--output_dir=outputs/slurm_multi_node"]


def script() -> str:
    """The script: two nodes with four GPUs each, in the folder where it is submitted."""
    config = SlurmConfig(nodes=2, gpus_per_node=4, partition="gpu", script=SCRIPT)
    job = Job(
        program=["manyhands"],
        flags=FLAGS,
        run_dir=Path("outputs/slurm_multi_node"),
        folder=Path(),
        name="train",
        written_by=["manyhands", "launch", "slurm", *OWN, "--", *FLAGS],
    )
    return sbatch_script(config, job)


if __name__ == "__main__":
    (ROOT / SCRIPT).write_text(script(), encoding="utf-8")
    (ROOT / SCRIPT).chmod(0o755)
    print(f"wrote {ROOT / SCRIPT}")
