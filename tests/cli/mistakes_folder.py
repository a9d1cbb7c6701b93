"""The folder in which the mistakes of new users are made."""

import shutil
from pathlib import Path

import yaml

POLICY = {
    "type": "act",
    "device": "cpu",
    "dim_model": 16,
    "n_heads": 2,
    "dim_feedforward": 32,
    "latent_dim": 4,
    "n_encoder_layers": 1,
    "n_vae_encoder_layers": 1,
    "chunk_size": 6,
    "n_action_steps": 6,
}
RUN = {
    "dataset": {"root": "data"},
    "policy": POLICY,
    "steps": 2,
    "batch_size": 2,
    "num_workers": 0,
}
FILES = {
    "lr.yaml": {**RUN, "lr": 1e-4},
    "typo.yaml": {**RUN, "policy": {**POLICY, "chunk_szie": 8}},
    "value.yaml": {**RUN, "batch_size": "many"},
}
SCRIPT = """import manyhands

flags = ["--config=run.yaml", "--num_workers=1", "--steps=1", "--output_dir=runs/script"]
manyhands.train(manyhands.read_train_config(flags))
"""


def make_folder(folder: Path, dataset: Path) -> None:
    """Make a dataset, configurations, scripts, and paths that are in the way."""
    folder.mkdir()
    shutil.copytree(dataset, folder / "data")
    shutil.copytree(dataset, folder / "secret")
    (folder / "secret" / "meta" / "info.json").chmod(0)
    (folder / "run.yaml").write_text(yaml.safe_dump(RUN, sort_keys=False))
    for name, content in FILES.items():
        (folder / name).write_text(yaml.safe_dump(content, sort_keys=False))
    (folder / "syntax.yaml").write_text("steps: 2\n  batch_size: 4\n")
    (folder / "train.py").write_text(SCRIPT)
    (folder / "notes.txt").write_text("Charge the batteries.\n")
    (folder / "full").mkdir()
    (folder / "full" / "notes.txt").touch()
    (folder / "locked").mkdir(mode=0o555)
    (folder / "gone").symlink_to("elsewhere")
