"""Every recipe switches, stops, resumes, dies and resumes on a GPU; run by make gpu-soak."""

import os

import pytest
import torch
from soak_life import Plan
from soak_recipes import RECIPES, Recipe

pytestmark = [
    pytest.mark.gpu_soak,
    pytest.mark.timeout(3600),
    pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU"),
]


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: recipe.name)
def test_recipe(recipe: Recipe, soaked, request):
    plan = Plan(
        train_s=request.config.getoption("--soak-seconds"),
        has_neighbors="PYTEST_XDIST_WORKER" in os.environ,
    )
    # Faults that are found on the way are raised.
    assert soaked(recipe, plan).seconds > 0
