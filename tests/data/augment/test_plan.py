"""Which transforms a sample gets."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from manyhands.data.augment.augmentation import TransformChoice
from manyhands.draws.counter import CounterSource, derive_key

NUM_SAMPLES = 200_000


def places_of(plan: TransformChoice, num_samples: int = NUM_SAMPLES) -> torch.Tensor:
    return plan.places(CounterSource(derive_key(0, "plan"), torch.arange(num_samples)))


@given(st.lists(st.floats(0.01, 100), min_size=1, max_size=7))
def test_every_entry_has_a_place_of_its_own(weights):
    places = places_of(TransformChoice(weights, 1, False), 20)
    expected = torch.arange(float(len(weights))).expand(20, -1)
    assert torch.equal(places.sort(dim=1).values, expected)


def test_the_first_place_goes_by_weight():
    first = (places_of(TransformChoice([1.0, 2.0, 5.0], 1, False)) == 0).float().mean(0)
    torch.testing.assert_close(first, torch.tensor([1, 2, 5]) / 8, atol=0.005, rtol=0)


def test_two_are_drawn_as_without_replacement():
    seen = (places_of(TransformChoice([1.0, 2.0, 5.0], 2, False)) < 2).float().mean(0)
    # The light one comes first, or after the middle one, or after the heavy one.
    light = 1 / 8 + 2 / 8 * 1 / 6 + 5 / 8 * 1 / 3
    middle = 2 / 8 + 1 / 8 * 2 / 7 + 5 / 8 * 2 / 3
    expected = torch.tensor([light, middle, 2 - light - middle])
    torch.testing.assert_close(seen, expected, atol=0.005, rtol=0)


def test_listed_order_needs_one_round_with_all_that_are_chosen():
    plan = TransformChoice([1.0] * 5, 3, False)
    (chosen,) = plan.rounds(places_of(plan, 50))
    assert chosen.sum(1).tolist() == [3] * 50


def test_random_order_meets_one_entry_per_round_and_none_twice():
    plan = TransformChoice([1.0] * 5, 3, True)
    rounds = plan.rounds(places_of(plan, 50))
    assert [each.sum(1).tolist() for each in rounds] == [[1] * 50] * 3
    assert torch.stack(rounds).sum(0).max() == 1
