"""All checks of a machine together."""

from manyhands.doctor.check import is_usable
from manyhands.doctor.machine import check_machine


def test_gpus_host_and_software_are_checked(tmp_path):
    checks = check_machine(tmp_path)
    names = [check.name for check in checks]
    assert {"driver", "disk", "packages", "extras"} <= set(names)
    assert len(names) == len(set(names)) and is_usable(checks)
    assert all(check.remedy for check in checks if check.state in ("warn", "fail"))
