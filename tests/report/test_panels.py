"""Which quantities are seen together."""

from hypothesis import given
from hypothesis import strategies as st

from manyhands.report.charts import MAX_OTHERS, panels


def titles(*names: str) -> dict[str, list[str]]:
    return {panel.title: members for panel, members in panels(names)}


def test_the_trainers_quantities_find_their_charts_in_reading_order() -> None:
    names = ["grad_norm", "lr", "l1_loss", "kld_loss", "val_loss", "loss", "samples_per_s"]
    shown = titles(*names, "data_wait_share", "update_s", "data_s")
    assert list(shown.items()) == [
        ("Loss", ["loss", "val_loss"]),
        ("Loss terms", ["kld_loss", "l1_loss"]),
        ("Learning rate", ["lr"]),
        ("Gradient norm", ["grad_norm"]),
        ("Samples per second", ["samples_per_s"]),
        ("Waiting for data", ["data_wait_share"]),
        ("Seconds per step", ["data_s", "update_s"]),
    ]


def test_an_unknown_quantity_gets_a_chart_of_its_own() -> None:
    assert titles("success_rate", "frames_per_s") == {
        "Success rate": ["success_rate"],
        "Frames per s": ["frames_per_s"],
    }


def test_quantities_that_only_count_upward_get_none() -> None:
    assert titles("epoch", "samples", "wall_s", "elapsed_s", "timestamp") == {}


def test_a_flood_of_unknown_quantities_is_cut() -> None:
    assert len(panels(f"probe_{index}" for index in range(100))) == MAX_OTHERS


@given(names=st.lists(st.text(min_size=1), unique=True))
def test_no_quantity_is_shown_twice_and_no_chart_is_empty(names: list[str]) -> None:
    shown = [members for _, members in panels(names)]
    flat = [name for members in shown for name in members]
    assert all(shown) and len(flat) == len(set(flat)) and set(flat) <= set(names)
