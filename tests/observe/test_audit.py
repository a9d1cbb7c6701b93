"""The audit shows the rows of every update."""

import json
from pathlib import Path

import torch

from manyhands.observe.audit import Audit, NoAudit


def test_each_update_leaves_its_rows(tmp_path: Path):
    audit = Audit(tmp_path, rank=3, step=0)
    audit.note(1, {"index": torch.tensor([5, 2])})
    row = json.loads((tmp_path / "audit" / "rank-03.jsonl").read_text())
    assert row == {"step": 1, "indices": [5, 2]}


def test_no_audit_writes_nothing(tmp_path: Path):
    NoAudit().note(1, {"index": torch.tensor([5, 2])})
    assert list(tmp_path.iterdir()) == []
