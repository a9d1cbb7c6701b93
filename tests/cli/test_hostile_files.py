"""Files that ask for absurd amounts are refused with exit code 2, in bounded time and memory."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

DEADLINE_S = 200
PROGRAM = """
import json, resource, sys
import manyhands
from manyhands.cli.main import run_guarded, train_command
from manyhands.errors import UserError
import manyhands.policies.load, manyhands.training.run

def load(arguments):
    manyhands.load_policy(arguments[0].removesuffix("/config.json"))

def read(arguments):
    manyhands.open_dataset(root=arguments[0])[0]

pages = int(open("/proc/self/statm").read().split()[0])
limit = pages * resource.getpagesize() + (1 << 30)
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
commands = {"train": train_command, "load": load, "read": read}
for name, *arguments in json.loads(sys.stdin.read()):
    print(f"=== {run_guarded(commands[name], arguments)}", file=sys.stderr)
"""
BOMB = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 12)
)
POLICIES = {
    "wide": {"type": "act", "dim_model": 10**9},
    "long": {"type": "act", "chunk_size": 10**12, "n_action_steps": 10**12},
    "deep": {"type": "act", "n_encoder_layers": 10**6},
    "heavy": {"type": "act", "dim_model": 65_536, "n_encoder_layers": 1024},
    "levels": {"type": "diffusion", "down_dims": [8] * 10**5},
    "cameras": {
        "type": "smolvla",
        "empty_cameras": 10**9,
        "input_features": {"observation.state": {"type": "STATE", "shape": [2]}},
    },
    "shape": {
        "type": "act",
        "input_features": {"observation.state": {"type": "STATE", "shape": [2**50]}},
        "output_features": {"action": {"type": "ACTION", "shape": [2]}},
    },
}


def answers(cases: list[list[str]], folder: Path) -> list[tuple[int, str]]:
    """The exit code of each command and what it said, all run with little memory to spare."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        input=json.dumps(cases),
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        cwd=folder,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    parts = done.stderr.split("=== ")
    codes = [int(part.splitlines()[0]) for part in parts[1:]]
    said = [parts[0], *(part.partition("\n")[2] for part in parts[1:-1])]
    return [*zip(codes, said, strict=True)]


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="/proc is not available")
def test_hostile_files_are_refused_at_once(tmp_path: Path, tiny_dataset: Path) -> None:
    cases = []
    for name, document in POLICIES.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.json").write_text(json.dumps(document))
        root = f"--dataset.root={tiny_dataset}"
        cases += [["train", root, f"--policy.path={name}"], ["load", f"{name}/config.json"]]
    (tmp_path / "bomb.yaml").write_text(BOMB)
    cases.append(["train", "--config=bomb.yaml"])
    for make in (more_rows, more_episodes_than_rows):
        shutil.copytree(tiny_dataset, tmp_path / make.__name__)
        make(tmp_path / make.__name__)
        cases.append(["read", make.__name__])
        small = ["--policy.type=act", "--policy.device=cpu"]
        cases.append(["train", *small, f"--dataset.root={make.__name__}"])
    for case, (code, said) in zip(cases, answers(cases, tmp_path), strict=True):
        named = "--policy." if "policy" in case[-1] else case[-1].rpartition("=")[2]
        assert code == 2, (case, said)
        assert named in said and "Traceback" not in said, (case, said)


def more_rows(root: Path) -> None:
    """A data file that has many rows, as it repeats one value, where metadata declares few."""
    (file,) = (root / "data").rglob("*.parquet")
    schema = pq.read_schema(file)
    columns = {
        field.name: pa.array(np.zeros(4_000_000, field.type.to_pandas_dtype()))
        for field in schema
        if not pa.types.is_nested(field.type)
    }
    table = pa.table(columns)
    with pq.ParquetWriter(file, table.schema) as writer:
        for _ in range(10):
            writer.write_table(table)


def more_episodes_than_rows(root: Path) -> None:
    """Metadata that declares frames beyond number."""
    (file,) = (root / "meta/episodes").rglob("*.parquet")
    table = pq.read_table(file)
    for name in ("length", "dataset_to_index"):
        values = table[name].to_pylist()
        values[-1] += 10**12
        table = table.set_column(table.column_names.index(name), name, pa.array(values))
    pq.write_table(table, file)
    info = json.loads((root / "meta/info.json").read_text())
    (root / "meta/info.json").write_text(json.dumps(info | {"total_frames": 0}))
