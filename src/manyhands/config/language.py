"""How a policy reads what it is told to do."""

from dataclasses import dataclass


@dataclass(frozen=True)
class LanguageConfig:
    """The tokenizer of a policy, and how long its texts are."""

    tokenizer_name: str
    """Folder or name on the Hub."""
    max_length: int
    padding: str
    """Whether texts are padded to that length (max_length) or to the longest of a batch."""
