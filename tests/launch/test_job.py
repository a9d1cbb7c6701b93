"""A job's texts are all named, and a file of it says which command wrote it."""

from pathlib import Path

import yaml
from hypothesis import given
from hypothesis import strategies as st

from manyhands.config.launch.jobs import JobConfig
from manyhands.launch.job import Job, Quoted, node_words, to_yaml


def job(*flags: str) -> Job:
    return Job(["manyhands"], flags, Path("runs/a"), Path("/home/me"), "a", ["manyhands"])


def test_every_text_has_its_flag():
    named = dict(job("--steps=2", "--job_name", "b").texts())
    assert named["--output_dir"] == "runs/a" and named["--job_name"] == "a"
    assert named["training flags"] == "--job_name b"


def test_one_node_meets_no_other():
    assert node_words(JobConfig(), job("--steps=2")) == [
        *("manyhands", "train", "--steps=2", "--resume=auto", "--launch.num_processes=1")
    ]
    words = node_words(JobConfig(nodes=3, gpus_per_node=8), job())
    assert words[3:] == [
        *("--launch.num_processes=8", "--launch.num_machines=3", "--launch.main_port=29500")
    ]


@given(command=st.lists(st.text(st.characters(exclude_categories=["Cs"]))))
def test_the_command_is_a_comment_whatever_it_holds(command):
    text = to_yaml([{"a": Quoted("1e-5")}], command)
    assert yaml.safe_load(text) == {"a": "1e-5"}
    assert [line[0] for line in text.split("\n")[:2]] == ["#", "#"]
