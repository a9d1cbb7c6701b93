"""What `import manyhands` offers."""

import subprocess
import sys

import pytest

import manyhands


def test_the_names_are_there():
    for name in manyhands.__all__:
        assert callable(getattr(manyhands, name)), name
    with pytest.raises(AttributeError):
        _ = manyhands.nothing


def test_tab_completion_and_help_show_the_names():
    assert {*manyhands.__all__, "__version__"} == {*dir(manyhands)}
    names = {*manyhands.__all__}
    assert names >= {"Ending", "UserError", "Diverged", "Dataset", "Policy", "open_dataset"}


@pytest.mark.parametrize("config", [3, None, ["--steps=3"]])
def test_what_is_no_config_is_not_trained(config):
    with pytest.raises(manyhands.UserError, match=r"train takes a TrainConfig, not \w+. Write "):
        manyhands.train(config)


def test_flags_are_a_list():
    with pytest.raises(manyhands.UserError, match=r"not one text. Write \['--steps=3'\]"):
        manyhands.read_train_config("--steps=3")


def test_train_stays_a_function_whatever_is_imported():
    import manyhands.training.loop

    assert manyhands.train.__name__ == "train"


@pytest.mark.new_interpreter
def test_importing_does_not_wait_for_torch():
    program = "import sys, manyhands; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
