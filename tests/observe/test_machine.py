"""Facts about this machine."""

import torch

from manyhands.observe.machine import hardware, software_versions


def test_versions_are_those_installed():
    assert software_versions()["torch"] == torch.__version__


def test_hardware_counts_cores_and_memory():
    facts = hardware()
    assert facts["cores"] >= 1
    assert facts["memory_bytes"] > 2**28
