"""Users meet the terms of PyTorch, LeRobot and SLURM, and none that they have to translate."""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "src" / "manyhands"
RESOURCES = (".html", ".sbatch")
"""Files of the package that users read as they are."""

GLOSSARY = {
    r"updates?": "step, training step",
    r"operations? (?:at a time|after another)": "eagerly",
    r"record(?:ed|ings? of) (?:a |the )?(?:update|step)s?": "captured, CUDA graph",
    r"(?<!graph )replay(?:s|ed|ing)?(?! buffer)": "graph replay",
    r"anew": "again, re-capture, from scratch",
    r"behind (?:its|the|their|your|our) backs?": "in the background, asynchronously",
    r"ris(?:e|es|en|ing)|chang(?:e|es|ed|ing) over": "switches to the compiled step, increases",
    r"kept (?:frames?|images?|tokens?|features?|on disk|in (?:ram|memory)|for)": "cached",
    r"(?:frames?|images?|tokens|features|what) (?:is|are|was|were) kept": "cached",
    r"keep(?:s|ing)? (?:what|tokens|features)": "caches",
    r"told|tells?|telling|(?:is|are|be|was) said|news": "reported, logged, messages",
    r"mend(?:s|ed|ing)?": "fix, usage error",
    r"(?:go|goes|went|gone|going) on": "continues, resumes from",
    r"(?:left|leaves?|leaving) (?:(?:it|them|that|one of (?:the two|them)) )?out": "skip, exclude, "
    "remove",
    r"(?<!connection )refus(?:e|es|ed|ing|als?)": "rejected with an error that names it",
    r"made[- ]up(?! of)": "synthetic",
    r"(?<![/.])pictures?(?![/.]\w)": "images, frames",
    r"(?<!take )(?<!takes )(?<!took )(?<!in )parts?(?! of\b)": "dataset, shard, micro-batch or "
    "submodule",
    r"shares? of|(?:a|the|its|their|each|every|own|what|rank's|largest|least) share": "fraction, "
    "local batch, slice of a rank",
    r"rooms?": "memory, disk space, fits",
    r"meetings?|meets? (?:at|on|there)|(?:process|processes|ranks?|nodes?|they) meet": "rendezvous",
    r"exchang(?:e|es|ed|ing)": "all-reduce, all-gather, communicate",
    r"waking|wakes? (?:a |the |its |every )?(?:GPU|device)s?": "CUDA warm-up, initialize",
    r"silence(?! (?:a |the |this )?warnings?)": "no-op process group",
    r"culprits?": "non-finite samples",
    r"remarks?": "loss spikes",
    r"(?:is|are|when|comes|nothing) due": "periods, schedule",
    r"claims? (?:of|on|file)|(?:its|run's) claim|claims the (?:run|folder|directory)": "run lock",
    r"(?:newest|is|are|appears?) whole|wholly": "complete, intact, atomic",
    r"whole (?:files?|folder|directory|checkpoints?|weights|ones?)": "complete, intact, atomic",
    r"whole numbers?": "integer",
    r"doubt(?:s|ed|ful)?": "known limitation",
    r"at hand": "available",
    r"comes? to|came to|coming to": "amounts to, totals",
    r"on (?:the|its|their) way": "when resuming, during training",
    r"(?:does|do) not exist here": "not supported by manyhands; use ...",
    r"unasked|without being asked": "by default",
}
"""Patterns that users must not read, and what to write instead."""
TERMS = [
    (re.compile(rf"\b(?:{term})\b".replace(" ", r"\s"), re.IGNORECASE), instead)
    for term, instead in GLOSSARY.items()
]
ALLOWED = {
    (
        "src/manyhands/config/schema/synonyms.py",
        "max_steps num_steps train_steps num_train_steps training_steps total_steps iters "
        "iterations max_iters num_iters num_iterations max_iterations train_iters n_iters "
        "n_steps offline_steps updates num_updates",
    ): "names that other programs have for a flag",
}
"""Texts that may use a term, by file, and why."""

CODE = re.compile(r"^(```|~~~).*?^\1", re.MULTILINE | re.DOTALL)
COMMENT = re.compile(r"(?<=# ).*")
SPANS = re.compile(r"`[^`\n]*`|\]\([^)]*\)|<!--.*?-->|\{[{%].*?[}%]\}", re.DOTALL)


@dataclass(frozen=True)
class Text:
    """Something that users read, and where it starts."""

    file: str
    line: int
    words: str

    def faults(self) -> Iterator[str]:
        """Every term of the glossary's left column, with its place and what to write instead."""
        for term, instead in TERMS:
            for found in term.finditer(self.words):
                line = self.line + self.words.count("\n", 0, found.start())
                around = self.words[max(0, found.start() - 40) : found.end() + 40]
                yield (
                    f"{self.file}:{line}: {found[0]!r}, write: {instead}\n"
                    f"    in: {' '.join(around.split())}"
                )


def source_texts(path: Path) -> Iterator[Text]:
    """Messages of a module and, of a config, the help of its flags."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    nodes = list(ast.walk(tree))
    skipped = docstrings(nodes, path.parent.name == "config")
    skipped |= {id(part) for node in nodes if is_f_string(node) for part in node.values}
    for node in nodes:
        words = words_of(node)
        if words is not None and " " in words and id(node) not in skipped:
            yield Text(path.relative_to(ROOT).as_posix(), node.lineno, words)


def is_f_string(node: ast.AST) -> bool:
    """Whether a node is an f-string, whose pieces are read together."""
    return isinstance(node, ast.JoinedStr)


def words_of(node: ast.AST) -> str | None:
    """The text of a string, with a mark for each value that an f-string fills in."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else None
    if not isinstance(node, ast.JoinedStr):
        return None
    return "".join(words_of(piece) or "{}" for piece in node.values)


def docstrings(nodes: list[ast.AST], is_config: bool) -> set[int]:
    """Strings that stand alone, but for those under the fields of a config, which are help."""
    alone = {
        id(node.value)
        for node in nodes
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    if not is_config:
        return alone
    bodies = [node.body for node in nodes if isinstance(node, ast.ClassDef)]
    pairs = [pair for body in bodies for pair in pairwise(body)]
    under_fields = {id(doc.value) for field, doc in pairs if is_help(field, doc)}
    return alone - under_fields


def is_help(field: ast.stmt, doc: ast.stmt) -> bool:
    """Whether a statement is the string under a field."""
    return isinstance(field, ast.AnnAssign) and isinstance(doc, ast.Expr)


def page_text(path: Path) -> Text:
    """What a page says."""
    return Text(path.relative_to(ROOT).as_posix(), 1, prose(path.read_text(encoding="utf-8")))


def prose(page: str) -> str:
    """A page whose code is blanked, but for its comments."""
    page = CODE.sub(lambda block: blanked_code(block[0]), page)
    return SPANS.sub(lambda span: blank(span[0]), page)


def blanked_code(block: str) -> str:
    """Code of which only comments can be read."""
    kept = [range(*comment.span()) for comment in COMMENT.finditer(block)]
    spots = {spot for span in kept for spot in span}
    return "".join(
        letter if place in spots or letter == "\n" else "`" for place, letter in enumerate(block)
    )


def blank(text: str) -> str:
    """As many lines and letters, of which none can be read."""
    return re.sub(r"[^\n]", "`", text)


@cache
def groups() -> dict[str, list[Path]]:
    """The files of each package, and the pages."""
    found: dict[str, list[Path]] = {}
    for path in sorted(PACKAGE.rglob("*")):
        if path.suffix in (".py", *RESOURCES):
            inner = path.relative_to(PACKAGE).parts
            found.setdefault(inner[0] if len(inner) > 1 else "manyhands", []).append(path)
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
    return found | {page.relative_to(ROOT).as_posix(): [page] for page in pages}


@cache
def texts(path: Path) -> list[Text]:
    """Everything in a file that users read."""
    return [*source_texts(path)] if path.suffix == ".py" else [page_text(path)]


@pytest.mark.parametrize("group", groups())
def test_users_read_no_term_of_the_left_column(group):
    read = [text for path in groups()[group] for text in texts(path)]
    faults = [
        fault for text in read if (text.file, text.words) not in ALLOWED for fault in text.faults()
    ]
    assert not faults, "\n".join([f"{len(faults)} terms to replace:", *faults])


@pytest.mark.parametrize(("file", "words"), ALLOWED)
def test_an_exception_is_still_needed(file, words):
    found = [text for text in texts(ROOT / file) if text.words == words]
    assert found, f"remove this exception: {file} has no such text any more: {words}"
    assert [*found[0].faults()], f"remove this exception: no term is left in {file}: {words}"


@pytest.mark.parametrize(
    "words",
    [
        "samples per update",
        "the run goes on",
        "leave one of the two out",
        "decoded frames are kept on disk",
        "what share of the speed",
        "the data is made up",
        "a part that is missing",
        "a whole\nnumber",
    ],
)
def test_a_term_is_found_with_what_to_write_instead(words):
    (fault, *_) = Text("page.md", 7, words).faults()
    assert fault.startswith("page.md:7: ") and "write: " in fault


@pytest.mark.parametrize(
    "words",
    [
        "set --ema.update_after_step, keep_last and updated_at",
        "null: keep all checkpoints",
        "processes share the GPU through shared memory",
        "a part of the dataset takes part",
        "connection refused",
        "a CUDA graph replay",
        "a replay buffer",
        "record a dataset with lerobot-record",
        "the whole dataset",
    ],
)
def test_words_of_the_trade_pass(words):
    assert not [*Text("page.md", 1, words).faults()]


def test_code_on_a_page_is_not_prose_but_its_comments_are():
    page = "Call `update()`.\n```bash\nupdate --all  # makes updates\n```\n"
    (fault,) = Text("page.md", 1, prose(page)).faults()
    assert fault.startswith("page.md:3: 'updates'")
