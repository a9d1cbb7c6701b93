"""A long run of the published configuration for PushT; run by make gpu-soak."""

from pathlib import Path

import pytest
import torch
from soak_life import Plan
from soak_recipes import long_recipe

RESUMED_S = 40.0

pytestmark = [
    pytest.mark.gpu_soak,
    pytest.mark.timeout(0),
    pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU"),
]


def test_long_run(soaked, request):
    dataset = request.config.getoption("--soak-dataset")
    if not dataset:
        pytest.skip("no dataset: set SOAK_DATASET=DIR for make, or --soak-dataset=DIR for pytest")
    first_s = 60.0 * request.config.getoption("--soak-minutes")
    recipe = long_recipe(Path(dataset).resolve())
    # Faults that are found on the way are raised.
    assert soaked(recipe, Plan(first_s=first_s, resumed_s=RESUMED_S)).seconds > 0
