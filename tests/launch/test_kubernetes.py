"""The manifest is what Kubernetes accepts, and hands every value on as it is."""

import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from manyhands.config.launch.kubernetes import KubernetesConfig, is_name, name_like
from manyhands.config.resolve import read_train_config
from manyhands.errors import ConfigError
from manyhands.launch.job import Job
from manyhands.launch.kubernetes import kubernetes_manifest

SCHEMA = json.loads(Path(__file__).with_name("kubernetes.schema.json").read_text())
VALIDATOR = jsonschema.validators.validator_for(SCHEMA)(SCHEMA)
TRAIN = ("--dataset.root=/data/pick", "--policy.type=act", "--output_dir=/data/runs/act")


def job(**values: Any) -> Job:
    known = {
        "program": ["manyhands"],
        "flags": TRAIN,
        "run_dir": Path("/data/runs/act"),
        "folder": Path("/home/me"),
        "name": "act_multi_gpu",
        "written_by": ["manyhands", "launch", "kubernetes"],
    }
    return Job(**known | values)


def documents(config: KubernetesConfig, run: Job | None = None) -> list[dict[str, Any]]:
    """The documents of a manifest, each checked against the schema."""
    read = [*yaml.safe_load_all(kubernetes_manifest(config, run or job()))]
    for document in read:
        VALIDATOR.validate(document)
    return read


def container(config: KubernetesConfig, run: Job | None = None) -> dict[str, Any]:
    return documents(config, run)[-1]["spec"]["template"]["spec"]["containers"][0]


FULL = KubernetesConfig(
    nodes=2,
    gpus_per_node=8,
    image="registry.io/team/manyhands:1",
    namespace="robots",
    cpus=32,
    mem="256Gi",
    shared_memory="32Gi",
    volumes={"robot-data": "/data", "scratch": "/tmp/scratch"},
    secrets=["hf-token"],
    node_selector={"cloud.google.com/gke-accelerator": "nvidia-h100"},
    env={"NCCL_DEBUG": "INFO", "LR": "1e-5"},
    working_dir="/workspace",
)


def test_every_wish_is_a_field():
    service, batch = documents(FULL)
    assert service["spec"]["clusterIP"] == "None"
    assert (
        batch["metadata"] == service["metadata"] == {"name": "act-multi-gpu", "namespace": "robots"}
    )
    spec = batch["spec"]
    assert (spec["completions"], spec["parallelism"], spec["completionMode"]) == (2, 2, "Indexed")
    assert service["spec"]["selector"] == spec["template"]["metadata"]["labels"]
    pod = spec["template"]["spec"]
    assert pod["subdomain"] == service["metadata"]["name"]
    assert pod["nodeSelector"] == FULL.node_selector
    (train,) = pod["containers"]
    assert train["resources"] == {
        "requests": {"cpu": 32, "memory": "256Gi"},
        "limits": {"nvidia.com/gpu": 8},
    }
    assert train["env"][1] == {"name": "LR", "value": "1e-5"}
    assert [mount["mountPath"] for mount in train["volumeMounts"]] == [
        *FULL.volumes.values(),
        "/dev/shm",
    ]


def test_every_pod_runs_a_launcher_that_finds_the_first():
    words = container(FULL)["command"]
    assert words[:4] == ["/bin/sh", "-c", words[2], "train"]
    # The flags of training and of the launcher are one command line that parses.
    flags = [*words[6:], "--launch.machine_rank=1"]
    config = read_train_config([flag for flag in flags if flag != "--resume=auto"])
    assert config.launch.num_machines == 2 and config.launch.num_processes == 8
    assert config.launch.main_address == "act-multi-gpu-0.act-multi-gpu"


def test_the_shell_of_a_pod_adds_its_number_and_changes_nothing(tmp_path):
    program = tmp_path / "manyhands"
    program.write_text("#!/bin/sh\nprintf '%s\\n' \"$@\"\n")
    program.chmod(0o755)
    value = "--job_name=$(touch a) `touch b` '\" $HOME"
    words = [expanded(word, {}) for word in container(FULL, job(flags=[value]))["command"]]
    environ = {"JOB_COMPLETION_INDEX": "1", "PATH": f"{tmp_path}:{os.defpath}"}
    done = subprocess.run(words, env=environ, capture_output=True, text=True, cwd=tmp_path)
    assert done.stdout.splitlines()[:2] == ["train", value]
    assert done.stdout.splitlines()[-1] == "--launch.machine_rank=1"
    assert [path.name for path in tmp_path.iterdir()] == ["manyhands"]


def test_one_node_needs_no_service_and_no_shell():
    (batch,) = documents(KubernetesConfig(image="a"))
    spec = batch["spec"]["template"]["spec"]
    assert "subdomain" not in spec
    words = spec["containers"][0]["command"]
    assert words == ["manyhands", "train", *TRAIN, "--resume=auto", "--launch.num_processes=1"]


def test_a_saved_stop_is_retried_for_free_and_a_diverged_run_never():
    rules = documents(FULL)[1]["spec"]["podFailurePolicy"]["rules"]
    actions = {
        code: rule["action"]
        for rule in rules
        for code in rule.get("onExitCodes", {}).get("values", [])
    }
    assert actions == {3: "FailJob", 75: "Ignore"}
    assert documents(FULL)[1]["spec"]["backoffLimit"] == 6


def expanded(text: str, variables: dict[str, str]) -> str:
    """A text as Kubernetes expands references to variables in it."""

    def value(found: re.Match[str]) -> str:
        if found[0] == "$$":
            return "$"
        return variables.get(found[1], found[0])

    return re.sub(r"\$\$|\$\(([^)]*)\)", value, text)


texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))
hostile = st.sampled_from(["$(HOME)", "$$(HOME)", "`id`", "'", '"', "\n- x", ": y", "1e-5", "yes"])
values = st.lists(texts | hostile, max_size=4).map("".join)


@given(value=values)
def test_any_value_reaches_the_program_as_it_is(value):
    config = KubernetesConfig(nodes=2, image="a", env={"A": value}, volumes={"c": f"/{'x'}"})
    read = container(config, job(flags=[*TRAIN, f"--job_name={value}", value], written_by=[value]))
    variables = {"HOME": "/root", "A": "a"}
    words = [expanded(word, variables) for word in read["command"]]
    assert words[2] == 'exec "$@" --launch.machine_rank="$JOB_COMPLETION_INDEX"'
    assert words[4:11] == ["manyhands", "train", *TRAIN, f"--job_name={value}", value]
    assert expanded(read["env"][0]["value"], variables) == value


@given(value=values)
def test_no_text_becomes_another_type_for_any_reader(value):
    config = KubernetesConfig(image="a", env={"A": value})
    text = kubernetes_manifest(config, job())
    (line,) = [line for line in text.split("\n") if line.strip().startswith("value:")]
    assert line.strip().startswith('value: "') and line.endswith('"')


@pytest.mark.parametrize("value", ["a\0b", "a\ud800b"])
def test_what_no_program_can_be_given_is_refused_with_its_flag(value):
    with pytest.raises(ConfigError, match=r"--env\.A"):
        kubernetes_manifest(KubernetesConfig(image="a", env={"A": value}), job())
    with pytest.raises(ConfigError, match="training flags"):
        kubernetes_manifest(KubernetesConfig(image="a"), job(flags=[f"--job_name={value}"]))


@given(text=st.text())
def test_any_name_of_a_run_gives_a_name_of_a_job(text):
    assert is_name(name_like(text))


@given(name=st.text(max_size=70), path=st.text(max_size=20))
def test_names_and_paths_are_valid_or_refused(name, path):
    wishes = {"namespace": name, "job_name": name, "secrets": [name], "volumes": {name: path}}
    for field, value in wishes.items():
        config = KubernetesConfig(**{"image": "a", "nodes": 2, field: value})
        if faults := config.faults():
            assert all(fault.startswith(f"--{field}") for fault in faults)
        else:
            assert [each["kind"] for each in documents(config)] == ["Service", "Job"]
