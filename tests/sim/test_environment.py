"""An environment is given to policies that read what it gives."""

import pytest

from manyhands.errors import UserError
from manyhands.sim.environment import check_action_size, chosen_inputs

OFFERED = {"observation.state": (2,), "observation.image": None}


@pytest.mark.parametrize(
    "inputs",
    [
        {"observation.state": (2,)},
        {"observation.state": [2], "observation.image": (3, 96, 96)},
        {"observation.image": (3, 12, 20)},
    ],
)
def test_a_policy_may_read_some_inputs_and_images_of_any_size(inputs):
    assert chosen_inputs("pusht", OFFERED, inputs) == inputs


def test_an_input_that_is_not_given_is_named_beside_those_that_are():
    inputs = {"observation.state": (2,), "observation.images.wrist": (3, 8, 8)}
    with pytest.raises(UserError) as caught:
        chosen_inputs("pusht", OFFERED, inputs)
    told = str(caught.value)
    assert "--env.type=pusht does not give observation.images.wrist" in told
    assert "gives observation.state, observation.image" in told


def test_optional_inputs_may_be_missing_but_for_one():
    image, wrist = {"observation.image": (3, 8, 8)}, {"observation.images.wrist": (3, 8, 8)}
    optional = {*image, *wrist}
    assert chosen_inputs("pusht", OFFERED, image | wrist, optional) == image
    with pytest.raises(UserError, match=r"does not give observation\.images\.wrist"):
        chosen_inputs("pusht", OFFERED, wrist, optional - image.keys())


CAMERAS = {f"observation.images.{name}": (3, 8, 8) for name in ("a", "b")}


@pytest.mark.parametrize(
    ("offered", "inputs", "optional", "renames"),
    [
        (
            OFFERED,
            {"observation.images.top": (3, 8, 8)},
            (),
            "observation.image: observation.images.top",
        ),
        (OFFERED, {"observation.joints": (2,)}, (), "observation.state: observation.joints"),
        (
            {"observation.images.top": None, "observation.images.angle": None},
            CAMERAS,
            (),
            "observation.images.top: observation.images.a, "
            "observation.images.angle: observation.images.b",
        ),
        (OFFERED, CAMERAS, CAMERAS, "observation.image: observation.images.a"),
    ],
)
def test_a_rename_map_is_proposed_where_shapes_allow_it(offered, inputs, optional, renames):
    with pytest.raises(UserError) as caught:
        chosen_inputs("pusht", offered, inputs, optional)
    assert str(caught.value).endswith(f". Set --rename_map={{{renames}}}")


@pytest.mark.parametrize(
    "inputs",
    [CAMERAS, {"observation.joints": (3,)}, {"observation.image": (3, 8, 8)} | CAMERAS],
)
def test_no_rename_map_is_proposed_that_is_not_enough(inputs):
    with pytest.raises(UserError, match="Evaluate a policy with these inputs, or"):
        chosen_inputs("pusht", OFFERED, inputs)


def test_another_size_is_named():
    with pytest.raises(UserError, match=r"shape \(2,\), but the policy reads \(14,\)"):
        chosen_inputs("pusht", OFFERED, {"observation.state": (14,)})


def test_actions_of_another_size_are_refused_and_both_sizes_named():
    check_action_size("pusht", 2, 2)
    with pytest.raises(UserError, match=r"pusht takes actions of size 2, .* policy have size 1"):
        check_action_size("pusht", 2, 1)
