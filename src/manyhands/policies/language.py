"""Tokenize tasks with a policy's tokenizer."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from manyhands.errors import UserError, WeightsUnavailable
from manyhands.lerobot_format.files import read_json
from manyhands.lerobot_format.names import LANGUAGE_MASK, LANGUAGE_TOKENS
from manyhands.lerobot_format.policy.processors import TokenizerStep
from manyhands.policies.hub_models import extra_module, model_folder
from manyhands.types import Batch

FLAG = "--policy.vlm_model_name"
EXTRA = "smolvla"
TOKENIZER_FILE = "tokenizer.json"
SETTINGS_FILE = "tokenizer_config.json"


class Tokenizer(NamedTuple):
    """A tokenizer."""

    tokenizer: Any
    padding_token: int


class Language:
    """Tokenizes the tasks of a batch."""

    def __init__(self, tokenizing: TokenizerStep) -> None:
        self._tokenizing = tokenizing

    @cached_property
    def _reader(self) -> Tokenizer:
        """The tokenizer, read when it is needed: batches may come with their tokens."""
        tokenizing = self._tokenizing
        folder = tokenizing.folder or model_folder(tokenizing.tokenizer_name, FLAG)
        settings = read_json(_required(folder, SETTINGS_FILE), WeightsUnavailable)
        tokenizer = load_tokenizer(folder)
        if tokenizing.truncation:
            side = settings.get("truncation_side", "right")
            tokenizer.enable_truncation(tokenizing.max_length, direction=side)
        return Tokenizer(tokenizer, _padding_token(tokenizer, settings, folder))

    def check(self) -> None:
        """Reject missing or invalid tokenizer files."""
        _ = self._reader

    def tokens_of(self, batch: Batch, at_full_length: bool = False) -> dict[str, Tensor]:
        """The tokens of a batch's tasks, and their attention mask."""
        # Texts are padded as the policy configures, or all to the maximum length.
        lines = self._lines_of(batch)
        token_ids = [each.ids for each in self._reader.tokenizer.encode_batch(lines)]
        longest = max((len(each) for each in token_ids), default=0)
        is_fixed = at_full_length or self._tokenizing.padding == "max_length"
        length = max(longest, self._tokenizing.max_length) if is_fixed else longest
        filler = self._reader.padding_token
        tokens = torch.tensor([self._padded(each, length, filler) for each in token_ids])
        mask = torch.tensor([self._padded([1] * len(each), length, 0) for each in token_ids])
        return {LANGUAGE_TOKENS: tokens, LANGUAGE_MASK: mask.bool()}

    def _lines_of(self, batch: Batch) -> list[str]:
        key = self._tokenizing.task_key
        tasks = batch.get(key)
        if isinstance(tasks, str):
            sizes = (len(each) for each in batch.values() if isinstance(each, Tensor))
            tasks = [tasks] * next(sizes, 1)
        if not isinstance(tasks, Sequence) or not all(isinstance(each, str) for each in tasks):
            seen = ", ".join(sorted(batch)) or "nothing"
            raise UserError(
                f"the policy needs language: the batch must contain {key}, one string per "
                "sample; it has " + (f"{tasks!r:.60} there" if key in batch else seen)
            )
        if not self._tokenizing.ends_lines:
            return list(tasks)
        return [task if task.endswith("\n") else f"{task}\n" for task in tasks]

    def _padded(self, values: list[int], length: int, filler: int) -> list[int]:
        padding = [filler] * (length - len(values))
        return values + padding if self._tokenizing.padding_side == "right" else padding + values


def load_tokenizer(folder: Path) -> Any:
    """The tokenizer in a folder."""
    path = _required(folder, TOKENIZER_FILE)
    tokenizers = extra_module("tokenizers", EXTRA)
    # The library raises nothing narrower than what every error is; a document of another kind
    # is distinguished from a damaged one before it is parsed.
    if "model" not in read_json(path, WeightsUnavailable):
        raise WeightsUnavailable(f"{path} is not a tokenizer. Copy or download its folder again")
    return tokenizers.Tokenizer.from_file(str(path))


def _required(folder: Path, name: str) -> Path:
    if not (folder / name).is_file():
        raise WeightsUnavailable(
            f"tokenizer file {folder / name} is missing. Add it, or set {FLAG} to a folder "
            f"with {TOKENIZER_FILE} and {SETTINGS_FILE}"
        )
    return folder / name


def _padding_token(tokenizer: Any, settings: Mapping[str, Any], folder: Path) -> int:
    named = settings.get("pad_token")
    text = named.get("content") if isinstance(named, dict) else named
    number = tokenizer.token_to_id(text) if isinstance(text, str) else None
    if number is None:
        raise WeightsUnavailable(
            f"{folder / SETTINGS_FILE}: pad_token {text!r} is not in {TOKENIZER_FILE}"
        )
    return int(number)
