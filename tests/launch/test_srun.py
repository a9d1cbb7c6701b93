"""The place of a task, from SLURM's variables."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from manyhands.errors import EnvironmentFault
from manyhands.launch.srun import hosts_of, port_of_step, rank_of, task_variables

TASK = {
    "SLURM_JOB_ID": "4711",
    "SLURM_STEP_ID": "0",
    "SLURM_PROCID": "5",
    "SLURM_LOCALID": "1",
    "SLURM_NODEID": "1",
    "SLURM_NTASKS": "7",
    "SLURM_STEP_NUM_TASKS": "7",
    "SLURM_STEP_TASKS_PER_NODE": "4,3",
    "SLURM_JOB_NODELIST": "gpu[07-08]",
    "SLURM_CPUS_PER_TASK": "6",
}


def test_a_task_gets_what_torchrun_would_have_set():
    assert task_variables(TASK) == {
        "RANK": "5",
        "WORLD_SIZE": "7",
        "LOCAL_RANK": "1",
        "LOCAL_WORLD_SIZE": "3",
        "MASTER_ADDR": "gpu07",
        "MASTER_PORT": str(port_of_step(TASK)),
        "OMP_NUM_THREADS": "6",
    }


def test_what_the_user_or_a_launcher_set_stands():
    chosen = {"MASTER_ADDR": "10.0.0.1", "MASTER_PORT": "4000", "OMP_NUM_THREADS": "2"}
    place = task_variables(TASK | chosen)
    assert {name: place[name] for name in chosen} == chosen
    assert task_variables(TASK | {"RANK": "0"}) == {}


def test_scripts_and_single_tasks_are_no_ranks():
    script = {name: value for name, value in TASK.items() if "STEP" not in name}
    assert task_variables(script) == {}
    assert task_variables(TASK | {"SLURM_STEP_NUM_TASKS": "1"}) == {}
    assert task_variables({}) == {}


def test_tasks_per_node_are_guessed_where_nobody_says():
    told = TASK | {"SLURM_STEP_TASKS_PER_NODE": "", "SLURM_STEP_NUM_TASKS": "8"}
    assert task_variables(told)["LOCAL_WORLD_SIZE"] == "4"
    even = TASK | {"SLURM_STEP_TASKS_PER_NODE": "4(x2)"}
    assert task_variables(even)["LOCAL_WORLD_SIZE"] == "4"


def test_tasks_without_nodes_are_refused():
    with pytest.raises(EnvironmentFault, match="SLURM_JOB_NODELIST"):
        task_variables({name: value for name, value in TASK.items() if "NODELIST" not in name})


@pytest.mark.parametrize(
    ("node_list", "hosts"),
    [
        ("login1", ["login1"]),
        ("a,b-2", ["a", "b-2"]),
        ("gpu[1-3]", ["gpu1", "gpu2", "gpu3"]),
        ("gpu[01-02,10],cpu7", ["gpu01", "gpu02", "gpu10", "cpu7"]),
        ("r[1-2]n[08-09]", ["r1n08", "r1n09", "r2n08", "r2n09"]),
        ("n[099-101].site.org", ["n099.site.org", "n100.site.org", "n101.site.org"]),
    ],
)
def test_node_lists_are_expanded(node_list, hosts):
    assert hosts_of(node_list) == hosts


@given(st.lists(st.integers(0, 9999), min_size=1, max_size=8), st.integers(1, 4))
def test_any_numbers_come_back(numbers, width):
    written = [str(number).zfill(width) for number in numbers]
    assert hosts_of(f"n[{','.join(written)}]") == [f"n{number}" for number in written]


def test_a_broken_list_is_refused():
    with pytest.raises(EnvironmentFault, match="a-b"):
        hosts_of("n[a-b]")


def test_jobs_and_steps_have_ports_of_their_own():
    steps = [
        TASK | {"SLURM_JOB_ID": str(job), "SLURM_STEP_ID": str(step)}
        for job in range(50)
        for step in range(3)
    ]
    ports = {port_of_step(step) for step in steps}
    assert len(ports) == len(steps)
    assert all(12_000 <= port < 32_000 for port in ports)


@pytest.mark.parametrize(
    ("environ", "rank"),
    [
        ({}, "0"),
        (TASK, "5"),
        (TASK | {"SLURM_STEP_NUM_TASKS": "1"}, "0"),
        (TASK | {"RANK": "2"}, "2"),
        ({"RANK": "3"}, "3"),
    ],
)
def test_the_rank_is_that_of_the_innermost_launcher(environ, rank):
    assert rank_of(environ) == rank
