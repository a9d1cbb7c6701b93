"""Every command of the table of other guides stands in a block that make docs-test runs."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

ROW = re.compile(r"^\|([^|]*)\| (`[^|]*`[^|]*) \| `([^|]*)` \| ([^|]*) \|$", re.MULTILINE)
KEYS = {
    "fsdp.yaml": {
        "compute_environment": "LOCAL_MACHINE",
        "distributed_type": "FSDP",
        "mixed_precision": "bf16",
        "num_machines": 1,
        "num_processes": 4,
    },
    "accelerate_config_single_node.yaml": {"num_processes": 2},
    "accelerate_config_multi_node.yaml": {"num_machines": 2, "num_processes": 8},
    "my_config_file.yaml": {
        "compute_environment": "LOCAL_MACHINE",
        "deepspeed_config": {},
        "distributed_type": "MULTI_GPU",
        "fsdp_config": {},
        "machine_rank": 0,
        "main_process_ip": None,
        "main_process_port": None,
        "main_training_function": "main",
        "mixed_precision": "fp16",
        "num_machines": 1,
        "num_processes": 2,
        "use_cpu": False,
    },
}
"""Keys that guides give these files, with their values."""
FSDP_KEYS = {
    "fsdp_version": 1,
    "fsdp_sharding_strategy": "FULL_SHARD",
    "fsdp_auto_wrap_policy": "TRANSFORMER_BASED_WRAP",
    "fsdp_use_orig_params": True,
    "fsdp_state_dict_type": "FULL_STATE_DICT",
}


def plain(text: str) -> str:
    """Commands with continued lines joined and single spaces."""
    return re.sub(r"[ \t]+", " ", text.replace("\\\n", " "))


def rows(pages: list[Any]) -> list[tuple[str, str]]:
    """What the table says: the command here, and how it runs."""
    (page,) = [page for page in pages if page.path.name == "other_guides.md"]
    return [(found[3], found[4]) for found in ROW.finditer(page.text)]


def needs_of(command: str, pages: list[Any]) -> set[str]:
    """The marks of all blocks that have a command; an empty one where it runs."""
    blocks = [block for page in pages for block in page.fenced if block.language == "bash"]
    return {block.needs for block in blocks if plain(command) in plain(block.text)}


def test_every_command_runs_or_is_marked_with_what_the_table_says(pages: list[Any]) -> None:
    table = rows(pages)
    assert len(table) == 26
    for command, told in table:
        needs = needs_of(command, pages)
        assert needs, f"no page has {command}"
        assert ("" in needs) != told.startswith("needs "), command
        assert "" in needs or any(told.startswith(f"needs {each}") for each in needs), command


@pytest.mark.parametrize("name", KEYS)
def test_a_launcher_config_has_the_keys_of_the_guides(root: Path, name: str) -> None:
    tree = yaml.safe_load((root / name).read_text(encoding="utf-8"))
    assert KEYS[name].items() <= tree.items()
    if name == "fsdp.yaml":
        assert FSDP_KEYS.items() <= tree["fsdp_config"].items()
