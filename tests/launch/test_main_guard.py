"""Scripts that worker processes would run again."""

import runpy

import pytest

from manyhands.errors import UserError
from manyhands.launch.main_guard import GUARD

CALL = "refuse_unguarded_script()"
IMPORT = "from manyhands.launch.main_guard import refuse_unguarded_script"


def run(tmp_path, *lines: str, name: str = "__main__") -> str:
    """Run a file by a name; what it is told, or nothing."""
    file = tmp_path / "train.py"
    file.write_text("\n".join([IMPORT, *lines]))
    try:
        runpy.run_path(str(file), run_name=name)
    except UserError as error:
        return str(error)
    return ""


def test_a_script_without_a_guard_is_refused_with_its_line(tmp_path):
    said = run(tmp_path, "", CALL)
    assert said.startswith(f"{tmp_path / 'train.py'}, line 3: loader processes import this file")
    assert said.endswith(f"Put it below {GUARD}")
    assert "line 5" in run(tmp_path, "def main():", f"    {CALL}", "", "main()")
    assert "line 3" in run(tmp_path, "try:", f"    {CALL}", "finally:", "    pass")


@pytest.mark.parametrize("guard", [GUARD, "if '__main__' == __name__:"])
def test_a_guard_is_found_around_any_call(tmp_path, guard):
    assert run(tmp_path, guard, f"    {CALL}") == ""
    main = ["def main():", f"    {CALL}"]
    assert run(tmp_path, *main, guard, "    if True:", "        main()") == ""


def test_a_module_that_another_program_imports_is_left_alone(tmp_path):
    assert run(tmp_path, CALL, name="train") == ""
