"""Errors of libraries that render name what to install or to set; others pass."""

import pytest

from manyhands.errors import EnvironmentFault
from manyhands.sim.rendering import explaining_rendering

ERRORS = [
    ImportError("('Unable to load EGL library', 'libEGL.so.1: cannot open shared object file')"),
    AttributeError("'NoneType' object has no attribute 'eglQueryString'"),
    OSError("libOSMesa.so.8: cannot open shared object file"),
    OSError("libGL.so.1: cannot open shared object file: No such file or directory"),
    RuntimeError("Failed to make the EGL context current."),
]


@pytest.mark.parametrize("chosen", [None, "", "egl"])
@pytest.mark.parametrize("error", ERRORS, ids=str)
def test_a_library_that_renders_is_named_with_its_remedy(error, chosen, monkeypatch):
    monkeypatch.delenv("MUJOCO_GL", raising=False)
    if chosen is not None:
        monkeypatch.setenv("MUJOCO_GL", chosen)
    with pytest.raises(EnvironmentFault) as caught, explaining_rendering("--env.task=a/B-v0"):
        raise error
    reason = str(error).rstrip(".")
    assert str(caught.value).startswith(
        f"--env.task=a/B-v0 cannot render images: {reason}. Install"
    )
    assert "apt-get install libegl1" in str(caught.value)


@pytest.mark.parametrize("chosen", ["gl", "nonsense", "off"])
def test_a_wrong_variable_is_named_with_its_valid_values(chosen, monkeypatch):
    monkeypatch.setenv("MUJOCO_GL", chosen)
    with pytest.raises(EnvironmentFault) as caught, explaining_rendering("MuJoCo"):
        raise RuntimeError("No OpenGL rendering backend is available.")
    assert str(caught.value) == (
        "MuJoCo cannot render images: No OpenGL rendering backend is available. "
        f"Set MUJOCO_GL to egl, osmesa or glfw, not {chosen!r}"
    )


@pytest.mark.parametrize(
    "error", [RuntimeError("the arm is stuck"), AttributeError("no attribute 'neglected'")]
)
def test_other_errors_are_what_they_were(error):
    with pytest.raises(type(error)) as caught, explaining_rendering("--env.task=a/B-v0"):
        raise error
    assert caught.value is error
