"""Published models, here or on the Hub."""

import json

import pytest

from manyhands.errors import UserError, WeightsUnavailable
from manyhands.policies.hub_models import extra_module, model_folder

FLAG = "--policy.vlm_model_name"


def test_a_folder_is_itself(tmp_path):
    assert model_folder(str(tmp_path), FLAG) == tmp_path


@pytest.mark.parametrize("name", ["me/my-vlm", "no/such/folder"])
def test_what_cannot_be_had_is_told_with_the_flag_that_mends_it(name):
    with pytest.raises(WeightsUnavailable, match=rf"{FLAG}={name} is n.*set {FLAG}"):
        model_folder(name, FLAG)


def test_without_a_network_the_place_of_kept_models_is_named():
    with pytest.raises(WeightsUnavailable, match=r"hf download me/my-vlm` .*and copy .*hub here"):
        model_folder("me/my-vlm", FLAG)


def test_a_package_that_is_missing_is_told_with_the_extra_that_brings_it():
    with pytest.raises(UserError, match=r"needs the package no_such_package.*manyhands\[smolvla\]"):
        extra_module("no_such_package.inner", "smolvla")
    with pytest.raises(UserError, match=r"^whoever asks needs the package no_such_package"):
        extra_module("no_such_package", "smolvla", "whoever asks")


def test_a_package_that_is_there_is_imported():
    assert extra_module("json", "smolvla") is json
