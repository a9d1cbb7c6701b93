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


def test_train_stays_a_function_whatever_is_imported():
    import manyhands.training.loop

    assert manyhands.train.__name__ == "train"


@pytest.mark.new_interpreter
def test_importing_does_not_wait_for_torch():
    program = "import sys, manyhands; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
