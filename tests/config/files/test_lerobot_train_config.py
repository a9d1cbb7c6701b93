"""train_config.json in LeRobot's keys, and runs from the files that LeRobot wrote."""

import json
from pathlib import Path
from typing import Any

import pytest

from manyhands.config.files.config_files import to_json
from manyhands.config.files.lerobot_train_config import from_lerobot, is_lerobots, to_lerobot
from manyhands.config.resolve import read_train_config
from manyhands.config.sections.env import PushtEnvConfig
from manyhands.config.sections.execution import ParallelismConfig
from manyhands.config.train import TrainConfig
from manyhands.errors import ConfigError

THEIRS = json.loads(Path(__file__).with_name("lerobot_train_config.json").read_text())
"""A run of LeRobot 0.6.1 as it stored it."""

FLAGS = ["--dataset.root=data", "--policy.type=act", "--policy.device=cpu"]
OWN_FLAGS = [
    "--dataset.image_size=[48,64]",
    "--dataset.on_bad=skip",
    "--cache.mode=ram",
    "--max_ram=1GiB",
    "--audit=true",
    "--accelerator.gradient_accumulation.steps=2",
]

NEWER = {
    "parallelism": {"dp_replicate": 4, "dp_shard": 2, "cfg_parallel": 1},
    "accelerator": {
        "mixed_precision": "bf16",
        "gradient_accumulation": {"steps": 2},
        "ddp": {"find_unused_parameters": True},
        "fsdp": {"reshard_after_forward": False, "min_num_params": None},
    },
    "checkpoint_format": "safetensors",
}
"""What newer releases store beside."""


def shape_of(document: Any) -> Any:
    """Keys in their order and types; lists by their first entry, nulls stand for any type."""
    if isinstance(document, dict):
        return [(key, shape_of(value)) for key, value in document.items()]
    if isinstance(document, list):
        return [shape_of(value) for value in document[:1]]
    return type(document)


def written(*argv: str) -> dict[str, Any]:
    config = read_train_config([*FLAGS, *argv])
    return json.loads(to_json(to_lerobot(config, Path("outputs/run"))))


def stored(folder: Path, document: dict[str, Any], name: str = "train_config.json") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(json.dumps(document))
    return folder / name


def test_keys_order_and_types_are_lerobots():
    ours = written(
        "--policy.repo_id=me/policy",
        "--policy.input_features={observation.state: {type: STATE, shape: [3]}}",
        "--policy.output_features={action: {type: ACTION, shape: [2]}}",
        *OWN_FLAGS,
    )
    theirs = json.loads(json.dumps(THEIRS))
    # Which LeRobot's own default writes as false, and a value it has read as a number.
    theirs["policy"]["replace_final_stride_with_dilation"] = 0
    assert shape_of(ours) == shape_of(theirs)


def test_settings_that_both_have_are_written():
    ours = written(
        "--steps=7",
        "--seed=3",
        "--eval_steps=2",
        "--dataset.eval_split=0.2",
        "--num_workers=0",
        "--job_name=mine",
        "--optimizer.lr=0.5",
        "--dataset.image_transforms.enable=true",
        "--rename_map={a: b}",
    )
    assert (ours["steps"], ours["seed"], ours["eval_steps"], ours["num_workers"]) == (7, 3, 2, 0)
    assert (ours["job_name"], ours["output_dir"], ours["resume"]) == ("mine", "outputs/run", False)
    assert ours["optimizer"]["lr"] == 0.5
    assert ours["scheduler"] is None
    assert ours["rename_map"] == {"a": "b"}
    assert ours["dataset"]["eval_split"] == 0.2
    assert ours["dataset"]["image_transforms"]["enable"] is True


def test_what_lerobot_needs_is_there_where_nothing_was_chosen():
    ours = written()
    assert (ours["num_workers"], ours["job_name"]) == (4, "act")
    assert ours["dataset"]["repo_id"] == "data"
    assert ours["dataset"]["root"] == "data"


def test_episodes_left_out_are_missing_among_those_to_use():
    ours = written("--dataset.episodes=[1,2,5]", "--dataset.exclude_episodes=[2,9]")
    assert ours["dataset"]["episodes"] == [1, 5]


def test_a_mixture_is_told_by_all_its_names():
    config = read_train_config(["--dataset.mix={me/a: 1, me/b: 2}", "--policy.type=act"])
    assert to_lerobot(config, Path("run"))["dataset"]["repo_id"] == "me/a+me/b"


def test_a_run_of_lerobot_is_a_run_here(tmp_path):
    config = read_train_config([f"--config_path={stored(tmp_path, THEIRS)}", "--num_workers=0"])
    assert (config.steps, config.seed, config.batch_size) == (50, 7, 4)
    assert (config.policy.chunk_size, config.optimizer.lr) == (8, 3e-4)
    assert config.policy.repo_id == "me/policy"
    assert config.policy.push_to_hub is False
    assert config.output_dir == Path("outputs/theirs")


@pytest.mark.parametrize("name", ["train_config.json", "copied.json"])
def test_where_a_run_went_and_whom_it_told_is_its_past(tmp_path, name):
    past = {"checkpoint_path": "outputs/old", "save_checkpoint_to_hub": True, "resume": True}
    file = stored(tmp_path, THEIRS | NEWER | past, name)
    config = read_train_config([f"--config_path={file}"])
    assert config.resume is False
    assert config.policy.push_to_hub is False
    assert config.accelerator.mixed_precision == "bf16"
    assert config.accelerator.gradient_accumulation.steps == 2
    assert config.parallelism == ParallelismConfig()
    assert config.accelerator.fsdp.reshard_after_forward


@pytest.mark.parametrize(
    "flag", ["--parallelism.cfg_parallel=2", "--save_checkpoint_to_hub=true", "--job.timeout=1d"]
)
def test_the_same_is_a_wish_when_it_is_typed(tmp_path, flag):
    with pytest.raises(ConfigError, match=flag):
        read_train_config([f"--config_path={stored(tmp_path, THEIRS)}", flag])


def test_publishing_is_a_wish_when_it_is_typed(tmp_path):
    argv = [f"--config_path={stored(tmp_path, THEIRS)}", "--policy.push_to_hub=true"]
    assert read_train_config(argv).policy.push_to_hub is True


def test_what_lerobot_was_asked_for_and_does_not_exist_here_is_refused(tmp_path):
    file = stored(tmp_path, THEIRS | {"reward_model": {"type": "any"}, "tolerance_s": 0.5})
    with pytest.raises(ConfigError) as caught:
        read_train_config([f"--config_path={file}"])
    assert [fault.split("=")[0] for fault in caught.value.faults] == [
        "--reward_model",
        "--tolerance_s",
    ]


def test_a_run_with_adapters_is_told_as_lerobot_tells_it_and_understood_again(tmp_path):
    policy = {"type": "act", "pretrained_path": "base", "use_peft": True}
    theirs = THEIRS | {"peft": {"r": 4, "target_modules": ["linear1"]}}
    file = stored(tmp_path, theirs | {"policy": THEIRS["policy"] | policy})
    config = read_train_config([f"--config_path={file}"])
    assert config.peft is not None and config.policy is not None
    assert (config.peft.r, config.peft.target_modules) == (4, ["linear1"])
    assert config.policy.use_peft is False
    told = to_lerobot(config, Path("outputs/run"))
    assert told["policy"]["use_peft"] is True
    assert told["peft"]["target_modules"] == ["linear1"]


def test_no_seed_and_no_start_method_mean_the_usual_ones(tmp_path):
    unset = {"seed": None, "dataloader_multiprocessing_context": None}
    config = read_train_config([f"--config_path={stored(tmp_path, THEIRS | unset)}"])
    assert config.seed == TrainConfig().seed
    usual = TrainConfig().dataloader_multiprocessing_context
    assert config.dataloader_multiprocessing_context == usual


def test_older_keys_of_what_was_off_pass():
    old = {"use_rabc": False, "rabc_kappa": 0.01, "rabc_head_mode": "sparse", "steps": 3}
    assert from_lerobot(old) == {"steps": 3}
    assert from_lerobot({"use_rabc": True, "rabc_kappa": 1}) == {"use_rabc": True, "rabc_kappa": 1}


def test_lerobots_files_are_known_by_their_keys():
    assert is_lerobots(THEIRS)
    assert is_lerobots({"eval_freq": 20_000})
    assert not is_lerobots({"steps": 3, "policy": {"type": "act"}})


def test_its_own_file_of_a_run_leads_to_the_same_training(tmp_path):
    config = read_train_config([*FLAGS, "--steps=9", "--num_workers=2", "--output_dir=run"])
    file = stored(tmp_path, json.loads(to_json(to_lerobot(config, Path("run")))))
    again = read_train_config(
        [f"--config_path={file}", "--dataset.repo_id=null", "--job_name=null"]
    )
    assert again == config


EVALUATION = ["--env.type=pusht", "--eval_freq=500", "--eval.n_episodes=20", "--steps=9"]


def test_an_evaluation_goes_into_the_keys_of_lerobot_and_back(tmp_path):
    config = read_train_config([*FLAGS, *EVALUATION, "--num_workers=2", "--output_dir=run"])
    told = to_lerobot(config, Path("run"))
    assert (told["env"]["type"], told["env"]["task"]) == ("pusht", "PushT-v0")
    assert (told["env_eval_freq"], told["eval"]["n_episodes"]) == (500, 20)
    assert "eval_freq" not in told
    file = stored(tmp_path, json.loads(to_json(told)))
    unnamed = ["--dataset.repo_id=null", "--job_name=null"]
    assert read_train_config([f"--config_path={file}", *unnamed]) == config


def test_an_environment_that_lerobot_lacks_stays_out_of_its_file():
    assert written("--env.type=tray")["env"] is None


def test_what_lerobot_stores_of_an_environment_beside_passes(tmp_path):
    env = {"type": "pusht", "task": "PushT-v0", "fps": 10, "obs_type": "pixels", "features": {}}
    config = read_train_config([f"--config_path={stored(tmp_path, THEIRS | {'env': env})}"])
    assert config.env == PushtEnvConfig()
    file = stored(tmp_path, THEIRS | {"env": {"type": "libero"}})
    with pytest.raises(ConfigError, match=r"--env\.type=libero is unknown"):
        read_train_config([f"--config_path={file}"])


def test_the_older_name_of_a_setting_means_the_same(tmp_path):
    old = {name: value for name, value in THEIRS.items() if name != "env_eval_freq"}
    file = stored(tmp_path, old | {"eval_freq": 30, "env": {"type": "pusht"}})
    assert read_train_config([f"--config_path={file}"]).env_eval_freq == 30
    assert read_train_config([f"--config_path={file}", "--env_eval_freq=7"]).env_eval_freq == 7
    with pytest.raises(ConfigError, match="the same setting"):
        read_train_config([*FLAGS, "--eval_freq=1", "--env_eval_freq=2"])
