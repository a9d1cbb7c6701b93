"""The audit shows the rows of every update."""

import json
from pathlib import Path

import torch

from manyhands.observe.audit import Audit, NoAudit


def test_each_update_leaves_its_rows(tmp_path: Path):
    audit = Audit(tmp_path, rank=3, num_ranks=4, step=0)
    audit.record(1, {"index": torch.tensor([5, 2])})
    row = json.loads((tmp_path / "audit" / "rank-03.jsonl").read_text())
    assert row == {"step": 1, "indices": [5, 2]}


def test_fewer_ranks_take_back_what_the_others_wrote_after_the_resumed_step(tmp_path: Path):
    for rank in range(3):
        audit = Audit(tmp_path, rank, num_ranks=3, step=0)
        for step in (1, 2, 3):
            audit.record(step, {"index": torch.tensor([rank])})
    Audit(tmp_path, rank=0, num_ranks=1, step=2)
    for rank in range(3):
        lines = (tmp_path / "audit" / f"rank-{rank:02d}.jsonl").read_text().splitlines()
        assert [json.loads(line)["step"] for line in lines] == [1, 2]


def test_a_run_that_goes_back_forgets_the_updates_it_makes_again(tmp_path: Path):
    audit = Audit(tmp_path, rank=0, num_ranks=1, step=0)
    for step, row in ((1, 5), (2, 6)):
        audit.record(step, {"index": torch.tensor([row])})
    audit.truncate(1)
    audit.record(2, {"index": torch.tensor([9])})
    lines = (tmp_path / "audit" / "rank-00.jsonl").read_text().splitlines()
    assert [json.loads(line)["indices"] for line in lines] == [[5], [9]]


def test_no_audit_writes_nothing(tmp_path: Path):
    NoAudit().record(1, {"index": torch.tensor([5, 2])})
    NoAudit().truncate(0)
    assert list(tmp_path.iterdir()) == []
