"""Position codes by their definition."""

import math

import torch

from manyhands.policies.act.model import map_code, row_code


def wave(angle, place, dim):
    angle /= 10000 ** (2 * (place // 2) / dim)
    return math.cos(angle) if place % 2 else math.sin(angle)


def test_row_codes_are_sines_and_cosines_of_the_position():
    expected = [[wave(position, place, 8) for place in range(8)] for position in range(5)]
    torch.testing.assert_close(row_code(5, 8), torch.tensor(expected), rtol=0, atol=1e-7)


def test_map_codes_count_from_one_and_put_the_row_first():
    def code(row, column):
        y, x = (2 * math.pi * value / (size + 1e-6) for value, size in ((row, 2), (column, 3)))
        return [wave(y, place, 4) for place in range(4)] + [wave(x, place, 4) for place in range(4)]

    expected = [code(row, column) for row in (1, 2) for column in (1, 2, 3)]
    torch.testing.assert_close(map_code(2, 3, 8), torch.tensor(expected), rtol=0, atol=1e-7)
