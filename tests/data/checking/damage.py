"""Damages datasets by number and sees what becomes of them; run as a program of its own.

`python damage.py SCRATCH FIRST END BASE...` prints a line of JSON before and after each number.
A number is always the same damage. The program ends with a traceback if one takes too long.
"""

import faulthandler
import json
import os
import random
import runpy
import shutil
import sys
import traceback
from collections.abc import Callable
from copy import deepcopy
from fractions import Fraction
from hashlib import blake2b
from pathlib import Path
from typing import Any

import av
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from manyhands.data.checking.check import CheckOptions
from manyhands.data.checking.exclusions import bad_rows, unusable_episodes
from manyhands.data.checking.result_cache import check_folder
from manyhands.data.dataset import Dataset, open_dataset
from manyhands.data.episodes import Source, select_episodes
from manyhands.data.read_options import ReadOptions
from manyhands.errors import DatasetError
from manyhands.lerobot_format.dataset.meta import read_dataset_meta

DEADLINE_S = 60
as_nobody = runpy.run_path(str(Path(__file__).resolve().parents[2] / "nobody.py"))["as_nobody"]
WINDOWS = {"observation.state": [-1, 0, 1], "observation.images.top": [-1, 0]}
ODD_VALUES = (
    *(None, True, False, -1, 0, 1, 2, 7, 2**31, 2**53, 2**63, 10**30, -0.5, 1e-30, 1e308),
    *("", "x", "../../etc/passwd", "/etc/passwd", "video", "int64", "v2.1", "v9.0", "{0}" * 9),
    *(float("nan"), float("inf"), [], {}, [1], [[]], {"a": 1}, ["channels"], "\ud800", "\0"),
)

Damage = Callable[[Path, random.Random], str]


def files_of(root: Path, *endings: str) -> list[Path]:
    """Files with one of some endings; all without any."""
    found = (path for path in sorted(root.rglob("*")) if path.is_file())
    return [path for path in found if not endings or path.suffix in endings]


def cut(root: Path, chance: random.Random) -> str:
    path = chance.choice(files_of(root))
    content = path.read_bytes()
    path.write_bytes(content[: chance.randrange(len(content))])
    return f"cut {path.name}"


def flip(root: Path, chance: random.Random) -> str:
    path = chance.choice(files_of(root))
    content = bytearray(path.read_bytes())
    for _ in range(chance.choice((1, 1, 1, 2, 8, 64))):
        content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
    path.write_bytes(content)
    return f"flip {path.name}"


def zero(root: Path, chance: random.Random) -> str:
    path = chance.choice(files_of(root))
    content = bytearray(path.read_bytes())
    first = chance.randrange(len(content))
    end = min(len(content), first + chance.choice((1, 16, 512, 4096)))
    content[first:end] = bytes(end - first)
    path.write_bytes(content)
    return f"zero {path.name}"


def delete(root: Path, chance: random.Random) -> str:
    path = chance.choice([path for path in root.rglob("*") if chance.random() < 0.5] or [root])
    path = path if path != root else root / "meta"
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    return f"delete {path.name}"


def swap(root: Path, chance: random.Random) -> str:
    one, other = chance.sample(files_of(root), 2)
    first, second = one.read_bytes(), other.read_bytes()
    one.write_bytes(second)
    other.write_bytes(first)
    return f"swap {one.name} and {other.name}"


def put_another(root: Path, chance: random.Random) -> str:
    path = chance.choice(files_of(root))
    path.unlink()
    kind = chance.choice(("garbage", "empty", "folder", "pipe", "loop", "secret", "text"))
    match kind:
        case "garbage":
            path.write_bytes(chance.randbytes(chance.choice((1, 8, 500, 5000))))
        case "empty":
            path.touch()
        case "folder":
            path.mkdir()
        case "pipe":
            os.mkfifo(path)
        case "loop":
            path.symlink_to(path)
        case "secret":
            path.touch()
            chance.choice((path, path.parent)).chmod(0)
        case "text":
            path.write_text(chance.choice(("[]", "{}", "null", "[" * 5000, '{"a": 1}\n', "\n\n")))
    return f"{kind} as {path.name}"


def change_json(root: Path, chance: random.Random) -> str:
    path = chance.choice(files_of(root, ".json", ".jsonl"))
    lines = path.read_text().split("\n") if path.suffix == ".jsonl" else [path.read_text()]
    number = chance.randrange(len([line for line in lines if line]))
    document = json.loads(lines[number])
    told = [change_value(document, chance) for _ in range(chance.choice((1, 1, 3)))]
    lines[number] = json.dumps(document)
    path.write_text("\n".join(lines))
    return f"{path.name}: {', '.join(told)}"


def change_value(document: Any, chance: random.Random) -> str:
    """Change one value somewhere inside, or drop it."""
    holder = document
    while True:
        places = list(holder) if isinstance(holder, dict) else range(len(holder))
        if not places:
            return "nothing"
        place = chance.choice(list(places))
        inner = holder[place]
        if isinstance(inner, dict | list) and inner and chance.random() < 0.8:
            holder = inner
            continue
        if chance.random() < 0.25:
            del holder[place]
            return f"drop {place}"
        holder[place] = deepcopy(chance.choice(ODD_VALUES))
        return f"{place} = {holder[place]!r:.30}"


def change_table(root: Path, chance: random.Random) -> str:
    path = chance.choice(files_of(root, ".parquet"))
    table = pq.read_table(path)
    change = chance.choice((drop, retype, empty, not_a_number, shuffle, shorten, double, number))
    name = chance.choice([name for name in table.column_names if not name.startswith("stats/")])
    try:
        table = change(table, name, chance)
    except (pa.ArrowException, ValueError, TypeError, IndexError, OverflowError):
        table = drop(table, name, chance)
    pq.write_table(table, path, row_group_size=chance.choice((1, 100)))
    return f"{change.__name__} {name} of {path.name}"


def drop(table: pa.Table, name: str, chance: random.Random) -> pa.Table:
    return table.drop_columns([name])


def retype(table: pa.Table, name: str, chance: random.Random) -> pa.Table:
    kinds = (pa.string(), pa.float64(), pa.int8(), pa.float16(), pa.bool_(), pa.binary())
    column = table[name]
    if chance.random() < 0.3:
        new: Any = pa.array([[1, 2, 3][: 1 + row % 3] for row in range(len(table))])
    elif chance.random() < 0.3:
        new = pa.nulls(len(table), chance.choice((*kinds, pa.null())))
    elif chance.random() < 0.3:
        new = column.combine_chunks().dictionary_encode()
    else:
        new = column.cast(chance.choice(kinds), safe=False)
    return table.set_column(table.column_names.index(name), name, new)


def empty(table: pa.Table, name: str, chance: random.Random) -> pa.Table:
    values = table[name].to_pylist()
    values[chance.randrange(len(values))] = None
    column = pa.array(values, table[name].type)
    return table.set_column(table.column_names.index(name), name, column)


def not_a_number(table: pa.Table, name: str, chance: random.Random) -> pa.Table:
    values = table[name].to_pylist()
    row, odd = chance.randrange(len(values)), chance.choice((float("nan"), float("inf"), 1e38))
    is_list = isinstance(values[row], list)
    values[row] = [odd, *values[row][1:]] if is_list else odd
    kind = table[name].type if is_list else pa.float64()
    return table.set_column(table.column_names.index(name), name, pa.array(values, kind))


def shuffle(table: pa.Table, name: str, chance: random.Random) -> pa.Table:
    rows = list(range(len(table)))
    chance.shuffle(rows)
    return table.take(rows)


def shorten(table: pa.Table, name: str, chance: random.Random) -> pa.Table:
    return table.slice(0, chance.randrange(len(table)))


def double(table: pa.Table, name: str, chance: random.Random) -> pa.Table:
    if chance.random() < 0.5:
        return table.append_column(name, table[name])
    return pa.concat_tables([table, table.slice(chance.randrange(len(table)))])


def number(table: pa.Table, name: str, chance: random.Random) -> pa.Table:
    values = table[name].to_pylist()
    odd = chance.choice((-1, 0, 1, 2, 3, 5, 100, 2**31, 2**53, 2**62, -(2**62), 0.5, 1e300))
    values[chance.randrange(len(values))] = odd
    return table.set_column(table.column_names.index(name), name, pa.array(values))


def shorten_video(root: Path, chance: random.Random) -> str:
    videos = files_of(root, ".mp4")
    if not videos:
        return cut(root, chance)
    path = chance.choice(videos)
    shorter = path.with_suffix(".part")
    with av.open(str(path)) as source, av.open(str(shorter), "w", format="mp4") as target:
        stream = source.streams.video[0]
        copy = target.add_stream_from_template(stream, opaque=True)
        packets = [packet for packet in source.demux(stream) if packet.size]
        kept = packets[: chance.randrange(1, len(packets))] if chance.random() < 0.5 else packets
        factor = Fraction(chance.choice((1, 1, 2, 3)), chance.choice((1, 1, 2)))
        for packet in kept:
            packet.pts, packet.dts = int(packet.pts * factor), int(packet.dts * factor)
            packet.stream = copy
            target.mux(packet)
    shorter.replace(path)
    return f"shorten {path.name}"


DAMAGES: tuple[Damage, ...] = (
    *(cut, flip, flip, flip, zero, delete, swap, put_another),
    *(change_json, change_json, change_table, change_table, change_table, shorten_video),
)


def damaged(base: Path, scratch: Path, seed: int) -> tuple[Path, str]:
    """A damaged copy of a dataset, and what was done to it."""
    chance = random.Random(seed)
    root = scratch / "dataset"
    shutil.copytree(base, root)
    return root, chance.choice(DAMAGES)(root, chance)


def trace_of(root: Path) -> str:
    """A hash of everything in a folder."""
    digest = blake2b()
    for path in sorted(root.rglob("*")):
        digest.update(f"{path} {path.lstat().st_mode} {path.lstat().st_mtime_ns}".encode())
        if path.is_file() and not path.is_symlink():
            digest.update(path.read_bytes())
    return digest.hexdigest()


def outcome_of(root: Path, home: Path, seed: int) -> str:
    """Check and read a dataset; raises AssertionError where a promise is broken."""
    result = check_folder(root, None, home, CheckOptions(num_workers=0))
    for finding in result.findings:
        assert finding.file is not None or str(root) in finding.message, finding
        assert "\n" not in finding.text, finding
    try:
        read_all(opened(root, home), seed)
    except DatasetError as error:
        assert str(root) in str(error) or "meta/info.json" in str(error), f"{error} names no file"
        assert not result.is_usable, f"not found by the check: {error}"
    if not result.is_usable and result.num_frames:
        read_the_rest(root, home, result, seed)
    return "usable" if result.is_usable else result.findings[0].text


def read_the_rest(root: Path, home: Path, result: Any, seed: int) -> None:
    """What is not bad must be readable."""
    meta = read_dataset_meta(root)
    source = Source(root, meta, select_episodes(meta.episodes, None))
    try:
        lost = unusable_episodes(result, source)
    except DatasetError:
        return
    episodes = sorted({*range(len(meta.episodes))} - {*lost.tolist()})
    if not any(meta.episodes.lengths[episodes]):
        return
    dataset = opened(root, home, episodes)
    read_all(dataset, seed, skip=bad_rows(result, dataset))


def opened(root: Path, home: Path, episodes: list[int] | None = None) -> Dataset:
    """The dataset with windows of those features that are still such."""
    features = read_dataset_meta(root).info.features
    arrays = {key for key, each in features.items() if each.is_number or each.is_camera}
    windows = {key: offsets for key, offsets in WINDOWS.items() if key in arrays}
    return open_dataset(
        root=root, episodes=episodes, windows=windows, reading=ReadOptions(home=home)
    )


def read_all(dataset: Dataset, seed: int, skip: np.ndarray | None = None) -> None:
    rows = np.setdiff1d(np.arange(len(dataset)), [] if skip is None else skip)
    for row in np.random.default_rng(seed).permutation(rows):
        sample = dataset[int(row)]
        assert isinstance(sample["task"], str)
        if skip is not None and "action" in sample:
            assert np.isfinite(np.asarray(sample["action"], np.float64)).all()


def run(seed: int, bases: list[Path], scratch: Path) -> dict[str, Any]:
    """One damage and what came of it."""
    folder = scratch / str(seed)
    folder.mkdir(parents=True)
    folder.chmod(0o777)
    told = "nothing"
    try:
        root, told = damaged(bases[seed % len(bases)], folder, seed)
        before = trace_of(root)
        with as_nobody():
            outcome = outcome_of(root, folder / "home", seed)
        assert trace_of(root) == before, "the dataset was changed"
        return {"seed": seed, "damage": told, "outcome": outcome}
    except Exception:
        return {"seed": seed, "damage": told, "failure": traceback.format_exc()}
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def main(scratch: str, first: str, end: str, *bases: str) -> None:
    """Go through numbers, telling each before it begins: whatever ends the process then shows."""
    Path(scratch).chmod(0o755)
    # Everything is imported while it may still be read.
    outcome_of(Path(bases[0]), Path(scratch) / "home", 0)
    for seed in range(int(first), int(end)):
        print(json.dumps({"seed": seed}), flush=True)
        faulthandler.dump_traceback_later(DEADLINE_S, exit=True)
        print(json.dumps(run(seed, [Path(base) for base in bases], Path(scratch))), flush=True)
        faulthandler.cancel_dump_traceback_later()


if __name__ == "__main__":
    faulthandler.enable()
    av.logging.set_level(av.logging.PANIC)
    main(*sys.argv[1:])
