"""Whatever happens to the metadata of a dataset: it is read, or the file to mend is told."""

import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from manyhands.errors import DatasetError
from manyhands.lerobot_format import names
from manyhands.lerobot_format.dataset.episode_stats import read_episode_stats
from manyhands.lerobot_format.dataset.meta import DatasetMeta, read_dataset_meta

Tree = dict[str, bytes]
VERSIONS = st.sampled_from(["v2.1", "v3.0"])
EPISODES = "meta/episodes/chunk-000/file-000.parquet"
VALUES: list[Any] = [
    None,
    True,
    0,
    -1,
    7,
    0.5,
    -0.0,
    1e308,
    float("nan"),
    float("inf"),
    10**30,
    "",
    "0",
    "..",
    "/etc/passwd",
    "{video_key.__class__}",
    "{chunk_index:>1000000000}",
    "\ud800",
    "\0",
    [],
    [None],
    [1, [2]],
    [[[[1]]]],
    {},
    {"dtype": "float32", "shape": [1]},
]


def plant(root: Path, tree: Tree) -> None:
    """Make the folder hold these files and nothing else."""
    shutil.rmtree(root, ignore_errors=True)
    for name, content in tree.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(content)


def content(root: Path) -> dict[str, Any]:
    """Everything in a folder."""
    return {
        path.relative_to(root).as_posix(): path.read_bytes() if path.is_file() else None
        for path in root.rglob("*")
    }


class Outcome(NamedTuple):
    """Whether metadata was read or refused, and what is wrong with how."""

    is_read: bool
    wrongs: list[str]


def outcome_of(root: Path) -> Outcome:
    """Read the metadata, or be told why not."""
    before = content(root)
    try:
        meta = read_dataset_meta(root)
        read_episode_stats(root, meta.info)
    except DatasetError as error:
        is_read, rules = False, rules_of_telling(root, str(error))
    else:
        is_read, rules = True, rules_of_reading(root, meta)
    rules["nothing changes"] = content(root) == before
    return Outcome(is_read, [rule for rule, holds in rules.items() if not holds])


def rules_of_telling(root: Path, told: str) -> dict[str, bool]:
    """What holds of every refusal."""
    return {
        f"a file is named: {told[:2000]}": str(root / "meta") in told or names.INFO_FILE in told,
        "it can be printed": told.encode("utf-8", "replace").decode("utf-8") == told,
        "it is short": len(told) < 2000,
    }


def rules_of_reading(root: Path, meta: DatasetMeta) -> dict[str, bool]:
    """What holds of everything that is read."""
    info, episodes = meta.info, meta.episodes
    files = (episodes.data_files, *episodes.video_files.values())
    paths = [(root / path).resolve() for column in files for path in column.paths]
    return {
        "no episode is shorter than nothing": bool((episodes.lengths >= 0).all()),
        "episodes follow each other": episodes.from_index.tolist()
        == [0, *episodes.to_index[:-1].tolist()],
        "frames are counted": episodes.lengths.sum() == info.total_frames,
        "episodes are counted": len(episodes) == len(episodes.tasks) == info.total_episodes,
        "every episode has its files": {len(each.of_episode) for each in files} == {len(episodes)},
        "files lie in the folder": all(path.is_relative_to(root) for path in paths),
        "tasks are texts": all(isinstance(task, str) for task in meta.tasks),
    }


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder to damage again and again."""
    return tmp_path_factory.mktemp("damage") / "dataset"


def places(document: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every path inside a JSON document, by keys and positions."""
    if isinstance(document, dict | list):
        pairs = document.items() if isinstance(document, dict) else enumerate(document)
        for key, value in pairs:
            yield (*path, key)
            yield from places(value, (*path, key))


def changed(document: Any, data: st.DataObject) -> Any:
    """A document with one value, or one key, taken away or replaced."""
    *outer, last = data.draw(st.sampled_from(list(places(document))))
    holder = document
    for key in outer:
        holder = holder[key]
    match data.draw(st.sampled_from(["drop", "replace", "replace", "wrap", "rename"])):
        case "drop":
            del holder[last]
        case "replace":
            holder[last] = data.draw(st.sampled_from(VALUES))
        case "wrap":
            holder[last] = [holder[last]]
        case "rename" if isinstance(holder, dict):
            holder[data.draw(st.sampled_from(["", "..", "a/b", "x" * 300, "é"]))] = holder.pop(last)
    return document


@settings(max_examples=100)
@given(VERSIONS, st.data())
def test_any_value_of_any_document_may_be_wrong(trees, scratch, version, data):
    tree = dict(trees[version])
    name = data.draw(st.sampled_from([name for name in tree if ".json" in name]))
    is_lines = name.endswith("l")
    lines = tree[name].decode().strip().split("\n") if is_lines else [tree[name].decode()]
    place = data.draw(st.integers(0, len(lines) - 1))
    lines[place] = json.dumps(changed(json.loads(lines[place]), data))
    tree[name] = "\n".join(lines).encode()
    plant(scratch, tree)
    assert outcome_of(scratch).wrongs == []


@settings(max_examples=50)
@given(st.data())
def test_lines_may_be_torn_lost_repeated_or_out_of_order(trees, scratch, data):
    tree = dict(trees["v2.1"])
    name = data.draw(st.sampled_from([name for name in tree if name.endswith("jsonl")]))
    lines = tree[name].decode().strip().split("\n")
    kept = data.draw(st.lists(st.sampled_from(lines), max_size=5))
    if data.draw(st.booleans()) and kept:
        kept[-1] = kept[-1][: data.draw(st.integers(0, len(kept[-1])))]
    tree[name] = "\n".join(kept).encode()
    plant(scratch, tree)
    is_complete = sorted(line for line in kept if line) == sorted(lines)
    is_read, wrongs = outcome_of(scratch)
    assert wrongs == [] and (is_read or not is_complete)
    # Lines that are missing are made up for where that is possible, and told.
    assert is_complete or not is_read or read_dataset_meta(scratch).oddities


@settings(max_examples=75)
@given(VERSIONS, st.data())
def test_any_file_may_be_cut_or_overwritten(trees, scratch, version, data):
    tree = dict(trees[version])
    name = data.draw(st.sampled_from(sorted(tree)))
    damaged = bytearray(tree[name])
    place = data.draw(st.integers(0, len(damaged) - 1))
    match data.draw(st.sampled_from(["cut", "flip", "flip", "write", "swap"])):
        case "cut":
            del damaged[place:]
        case "flip":
            damaged[place] ^= 1 << data.draw(st.integers(0, 7))
        case "write":
            noise = data.draw(st.binary(min_size=1, max_size=30))
            damaged[place : place + len(noise)] = noise
        case "swap":
            damaged = bytearray(tree[data.draw(st.sampled_from(sorted(tree)))])
    tree[name] = bytes(damaged)
    plant(scratch, tree)
    assert outcome_of(scratch).wrongs == []


def without(table: pa.Table, place: int) -> pa.Table:
    return table.remove_column(place)


def emptied(table: pa.Table, place: int) -> pa.Table:
    field = table.schema.field(place)
    values = pa.array([None, *table.column(place).to_pylist()[1:]], field.type)
    return table.set_column(place, field.name, values)


def renumbered(table: pa.Table, place: int) -> pa.Table:
    return table.set_column(
        place, table.column_names[place], pa.array([-1, 10**17, 5][: len(table)])
    )


def retyped(table: pa.Table, place: int) -> pa.Table:
    texts = pa.array([str(value) for value in table.column(place).to_pylist()])
    return table.set_column(place, table.column_names[place], texts)


def nested(table: pa.Table, place: int) -> pa.Table:
    values = pa.array([[[value]] for value in table.column(place).to_pylist()])
    return table.set_column(place, table.column_names[place], values)


def zoned(table: pa.Table, place: int) -> pa.Table:
    times = pa.array(range(len(table)), pa.timestamp("s", "Nowhere/Atlantis"))
    return table.set_column(place, table.column_names[place], times)


def repeated(table: pa.Table, place: int) -> pa.Table:
    return table.append_column(table.column_names[place], table.column(place))


def shortened(table: pa.Table, place: int) -> pa.Table:
    return table.slice(place % len(table))


CHANGES = [without, emptied, renumbered, retyped, nested, zoned, repeated, shortened]


@settings(max_examples=75)
@given(
    st.sampled_from([EPISODES, names.TASKS_FILE]),
    st.sampled_from(CHANGES),
    st.integers(0, 200),
)
def test_any_column_may_be_wrong(trees, scratch, name, change, place):
    table = pq.read_table(pa.BufferReader(trees["v3.0"][name]))
    sink = pa.BufferOutputStream()
    pq.write_table(change(table, place % table.num_columns), sink)
    plant(scratch, trees["v3.0"] | {name: sink.getvalue().to_pybytes()})
    assert outcome_of(scratch).wrongs == []


def make_folder(path: Path) -> None:
    path.mkdir()


def make_pipe(path: Path) -> None:
    os.mkfifo(path)


def make_circle(path: Path) -> None:
    path.symlink_to(path.name)


def make_garbage(path: Path) -> None:
    path.write_bytes(np.random.default_rng(0).bytes(3000))


def make_nothing(path: Path) -> None:
    path.write_bytes(b"")


@pytest.mark.parametrize("version", ["v2.0", "v2.1", "v3.0"])
@pytest.mark.parametrize(
    "make", [None, make_folder, make_pipe, make_circle, make_garbage, make_nothing]
)
def test_something_else_in_the_place_of_a_file_is_told(
    trees: dict[str, Tree], scratch: Path, version: str, make: Callable[[Path], None] | None
) -> None:
    for name in trees[version]:
        plant(scratch, trees[version])
        (scratch / name).unlink()
        if make is not None:
            make(scratch / name)
        is_optional = name in (names.STATS_FILE, names.EPISODE_STATS_LINES_FILE)
        is_derived = name in (names.TASKS_FILE, names.TASK_LINES_FILE)
        if make is make_pipe:
            with pytest.raises(DatasetError, match=name):
                read_dataset_meta(scratch)
        else:
            is_empty = make is None or make is make_nothing
            is_read = (make is None and is_optional) or (is_empty and is_derived)
            assert outcome_of(scratch) == (is_read, [])


@pytest.mark.parametrize("version", ["v2.0", "v2.1", "v3.0"])
def test_what_may_not_be_read_is_told(trees, as_nobody, version):
    told = pytest.raises(DatasetError, match=r"meta/.*Permission denied")
    # Not below pytest's own folder, which nobody else may enter.
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        root = Path(folder) / "dataset"
        for name in (*trees[version], "meta"):
            plant(root, trees[version])
            (root / name).chmod(0)
            with as_nobody(), told:
                read_dataset_meta(root)
            (root / name).chmod(0o755)
