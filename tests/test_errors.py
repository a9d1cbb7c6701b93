"""Exit codes the shell sees."""

from manyhands.errors import ConfigError, DatasetError, Diverged, UserError


def test_mistakes_and_divergence_have_their_own_codes():
    assert DatasetError("x").exit_code == UserError("x").exit_code == 2
    assert Diverged("x").exit_code == 3


def test_a_config_error_tells_all_its_faults():
    assert str(ConfigError(["a", "b"])) == "a\nb"
    assert ConfigError("a single one").faults == ["a single one"]
