"""Finished evaluations as files."""

import json

import pytest

from manyhands.errors import UserError
from manyhands.evaluation.eval_info import as_json, eval_info
from manyhands.evaluation.results_file import read_results, refuse_unlike
from manyhands.evaluation.rollout import EpisodeResult

RESULTS = [
    EpisodeResult(0, 1000, True, 3.0, 1.0, 20),
    EpisodeResult(1, 1001, False, 0.5, 0.25, 90, error="crashed"),
]
ENV = {"type": "tray", "fps": 10}


def write(file, document):
    file.write_text(json.dumps(document))
    return file


def test_the_file_for_people_and_the_file_for_programs_hold_the_same(tmp_path):
    (tmp_path / "out").mkdir()
    info = eval_info(RESULTS, "tray", 1.5, {}) | {"env": ENV}
    write(tmp_path / "out" / "eval_info.json", info)
    write(tmp_path / "results.json", as_json(RESULTS, 1.5) | {"env": ENV})
    for path in (tmp_path / "out", tmp_path / "out" / "eval_info.json", tmp_path / "results.json"):
        found = read_results(path)
        assert (found.results, found.env) == (RESULTS, ENV)


def test_a_file_that_names_only_the_type_of_its_environment_is_compared_by_that(tmp_path):
    one = read_results(write(tmp_path / "a.json", eval_info(RESULTS, "tray", 1.5, {})))
    other = read_results(write(tmp_path / "b.json", as_json(RESULTS, 1.5) | {"env": ENV}))
    assert one.env == {"type": "tray"}
    refuse_unlike(one, other)


@pytest.mark.parametrize("text", ["{", "[]", '"a"', "{}", '{"episodes": 3}', '{"episodes": []}'])
def test_a_file_without_results_is_refused_by_name(tmp_path, text):
    (tmp_path / "a.json").write_text(text)
    with pytest.raises(UserError, match=r"--compare=.*a\.json"):
        read_results(tmp_path / "a.json")


def test_other_seeds_and_other_environments_are_refused(tmp_path):
    def saved(name, results=RESULTS, **env):
        return read_results(write(tmp_path / name, as_json(results, 1) | {"env": ENV | env}))

    one = saved("a.json")
    with pytest.raises(UserError, match=r"fps is 10 in .*a\.json and 20 in .*b\.json"):
        refuse_unlike(one, saved("b.json", fps=20))
    with pytest.raises(UserError, match=r"2 from 1000 to 1001 in .*, 1 from 1000 to 1000 in"):
        refuse_unlike(one, saved("b.json", RESULTS[:1]))
    refuse_unlike(saved("a.json", visualization_width=384), saved("b.json", visualization_width=96))
