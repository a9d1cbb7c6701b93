"""Values that the cluster would reject are named by their flag; tests/launch has the rest."""

import pytest

from manyhands.config.launch.kubernetes import KubernetesConfig


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({}, "--image=NAME"),
        ({"image": "-a"}, "is not an image name"),
        ({"image": "a", "job_name": "7up"}, "start with a letter"),
        ({"image": "a", "namespace": "A"}, "--namespace=A"),
        ({"image": "a", "secrets": ["A_b"]}, "--secrets: A_b"),
        ({"image": "a", "node_selector": {"gpu": "a/b"}}, "--node_selector: gpu=a/b"),
        ({"image": "a", "mem": "64GB"}, "--mem=64GB"),
        ({"image": "a", "shared_memory": "much"}, "--shared_memory=much"),
        ({"image": "a", "volumes": {"claim": "data"}}, "absolute path"),
        ({"image": "a", "volumes": {"A": "/data"}}, "--volumes: A"),
        ({"image": "a", "max_restarts": -1}, "--max_restarts=-1"),
        ({"image": "a", "cpus": 0}, "--cpus=0"),
        ({"image": "a", "working_dir": "\0"}, "--working_dir"),
    ],
)
def test_what_kubernetes_would_reject_is_named(values, told):
    assert told in " ".join(KubernetesConfig(**values).faults())


def test_what_it_accepts_is_accepted():
    values = {"image": "nvcr.io/team/a@sha256:0f", "job_name": "act-2", "secrets": ["hf.token"]}
    assert not KubernetesConfig(**values, node_selector={"a.io/gpu": "h100", "b": ""}).faults()
