"""Scores as metrics and as lines."""

from queue import SimpleQueue

from manyhands.config.sections.eval import TrainEvalConfig
from manyhands.config.train import TrainConfig
from manyhands.evaluation.rollout import EpisodeResult
from manyhands.evaluation.score import score
from manyhands.training.evaluation_scores import ScoreLog, emptied, lines_of, metrics_of


def result(index: int, success: bool, error: str | None = None) -> EpisodeResult:
    reward = float(success)
    return EpisodeResult(index, 1000 + index, success, 2 * reward, reward, 10 + index, error)


RESULTS = [result(0, True), result(1, False), result(2, True), result(3, False)]


def test_a_row_tells_shares_and_means():
    found = metrics_of(score(RESULTS), 3.0)
    assert 0 < found.pop("eval_success_low") < 0.5 < found.pop("eval_success_high") < 1
    assert found == {
        "eval_success": 0.5,
        "eval_max_reward": 0.5,
        "eval_sum_reward": 1.0,
        "eval_length": 11.5,
        "eval_episodes": 4,
        "eval_s": 3.0,
    }


def test_a_line_tells_the_success_with_its_interval():
    (line,) = lines_of(score(RESULTS), RESULTS, 41.4)
    assert line == "Evaluated 4 episodes: success 50.0 % [15, 85], max reward 0.50, 41 s"


def test_crashed_episodes_are_told():
    results = [*RESULTS, result(4, False, "it fell")]
    _, warning = lines_of(score(results), results, 1.0)
    assert warning == "WARNING: 1 episodes crashed and count as failures; seed 1004: it fell"


def test_the_last_step_ends_with_a_verdict_if_one_is_asked_for():
    log = ScoreLog(TrainConfig(steps=8, eval=TrainEvalConfig(expected_success=(90.0, 95.0))))
    found = log.add(4, RESULTS, 3.0)
    assert (found["eval_expected_low"], found["eval_expected_high"]) == (0.9, 0.95)
    assert len(emptied(log.messages)) == 1 and log.facts == {}
    log.add(8, RESULTS, 3.0)
    _, verdict = emptied(log.messages)
    assert verdict == "Success 50.0 % [15.0, 85.0] over 4 episodes: below (expected 90 to 95 %)"
    facts = log.facts["evaluation"]
    assert (facts["success"], facts["num_episodes"], facts["verdict"]) == (0.5, 4, "below")
    assert facts["expected_success"] == [90.0, 95.0]


def test_without_an_expectation_there_is_no_verdict():
    log = ScoreLog(TrainConfig(steps=8))
    assert log.add(8, RESULTS, 3.0, " (step 8)") == metrics_of(score(RESULTS), 3.0)
    (line,) = emptied(log.messages)
    assert line.endswith("3 s (step 8)") and log.facts == {}


def test_a_queue_is_emptied_in_its_order():
    queue: SimpleQueue[int] = SimpleQueue()
    for number in range(3):
        queue.put(number)
    assert emptied(queue) == [0, 1, 2]
    assert emptied(queue) == []
