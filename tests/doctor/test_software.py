"""Versions against what the package declares."""

import re
import tomllib
from pathlib import Path

import pytest

from manyhands.doctor.software import (
    EXTRAS,
    MIN_VERSIONS,
    PYTHON,
    check_extras,
    check_newest,
    check_packages,
    check_python,
    check_software,
    numbers,
)

PROJECT = tomllib.loads((Path(__file__).resolve().parents[2] / "pyproject.toml").read_text())


def names_of(requirements):
    return [re.split(r"[<>=]", each)[0] for each in requirements]


def test_the_declared_requirements_are_checked():
    declared = dict(each.split(">=") for each in PROJECT["project"]["dependencies"])
    assert declared == MIN_VERSIONS
    assert PROJECT["project"]["requires-python"] == f">={PYTHON[0]}"
    optional = PROJECT["project"]["optional-dependencies"]
    assert {name: sorted(names_of(optional[name])) for name in EXTRAS} == {
        name: sorted(packages) for name, packages in EXTRAS.items()
    }


def test_this_installation_is_usable():
    assert all(check.state != "fail" for check in check_software())


@pytest.mark.parametrize(
    ("version", "state"), [("3.10.9", "fail"), ("3.11.0", "ok"), ("3.13.9", "ok"), ("3.14", "warn")]
)
def test_the_version_of_python(version, state):
    assert check_python(version).state == state


def test_old_and_missing_packages_are_named():
    fine = dict.fromkeys(MIN_VERSIONS, "99.1")
    assert check_packages(fine).state == "ok"
    check = check_packages({**fine, "torch": "2.8.1+cu126", "av": None})
    assert check.state == "fail"
    assert check.found == "torch 2.8.1+cu126 (needs 2.9), av missing (needs 14)"


def test_a_torch_that_is_too_new_is_a_warning():
    assert check_newest({"torch": "2.13.4"}).state == "ok"
    assert check_newest({"torch": "2.14.0"}).state == "warn"
    assert check_newest({"torch": None}).state == "ok"


def test_missing_extras_are_no_fault():
    check = check_extras({"matplotlib": "3.9", "jinja2": "3.1"})
    assert check.state == "ok" and check.found.startswith("installed: report; not installed")
    assert "manyhands[smolvla,sim,track,import]" in check.remedy


def test_versions_compare_by_their_numbers():
    assert numbers("2.10.1+cpu") == (2, 10, 1) > numbers("2.9")
    assert numbers("unknown") == ()
