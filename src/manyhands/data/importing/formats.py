"""Recognize the format of a path, and open it."""

from pathlib import Path

from manyhands.data.importing.hdf5_episodes import opened_hdf5
from manyhands.data.importing.source import ImportSource, natural_order
from manyhands.errors import DatasetError
from manyhands.lerobot_format import names

FORMATS = {
    "robomimic": "HDF5 with data/demo_N/obs and actions",
    "aloha": "HDF5 per episode with observations/qpos, observations/images, action",
    "zarr": "replay buffer with data and meta/episode_ends, as a folder or .zarr.zip",
    "rlds": "TFRecord files with features.json and dataset_info.json",
    "csv": "CSV tables with images in folders or named in columns",
}
_HDF5_SUFFIXES = (".hdf5", ".h5", ".hdf")


def open_import_source(path: Path, format_name: str | None = None) -> ImportSource:
    """Open a dataset of another format, recognized or given."""
    if not path.exists():
        raise DatasetError(f"--from={path} does not exist")
    match format_name or detect_format(path):
        case "robomimic":
            from manyhands.data.importing.robomimic import open_robomimic

            return open_robomimic(path, hdf5_files(path))
        case "aloha":
            from manyhands.data.importing.aloha import open_aloha

            return open_aloha(path, hdf5_files(path))
        case "zarr":
            from manyhands.data.importing.zarr_buffer import ZarrBuffer

            return ZarrBuffer(path)
        case "rlds":
            from manyhands.data.importing.rlds import RldsEpisodes, rlds_folder

            if rlds_folder(path) is None:
                raise DatasetError(f"--from={path} must contain one features.json")
            return RldsEpisodes(path)
        case "csv":
            from manyhands.data.importing.image_folder import CsvEpisodes, csv_files

            if not csv_files(path):
                raise DatasetError(f"--from={path} contains no CSV file")
            return CsvEpisodes(path)
    raise _unknown(path)


def detect_format(path: Path) -> str:
    """The name of the format of a file or folder."""
    if (path / names.INFO_FILE).is_file():
        raise DatasetError(
            f"--from={path} is a LeRobot dataset. Convert it with --dataset.root={path}"
        )
    from manyhands.data.importing.image_folder import csv_files
    from manyhands.data.importing.rlds import rlds_folder
    from manyhands.data.importing.zarr_buffer import is_zarr

    if is_zarr(path):
        return "zarr"
    if hdf5_files(path):
        return _hdf5_format(hdf5_files(path)[0])
    if rlds_folder(path) is not None:
        return "rlds"
    if path.suffix == ".csv" or (path.is_dir() and csv_files(path)):
        return "csv"
    raise _unknown(path)


def hdf5_files(path: Path) -> list[Path]:
    """The file at a path, or the files in a folder, in the order of their numbers."""
    if path.is_file():
        return [path] if path.suffix in _HDF5_SUFFIXES else []
    found = [file for file in path.iterdir() if file.suffix in _HDF5_SUFFIXES]
    return sorted(found, key=lambda file: natural_order(file.name))


def _hdf5_format(path: Path) -> str:
    from manyhands.data.importing.aloha import is_aloha
    from manyhands.data.importing.robomimic import is_robomimic

    with opened_hdf5(path) as file:
        if is_robomimic(file):
            return "robomimic"
        if is_aloha(file):
            return "aloha"
        contents = ", ".join(list(file)[:8]) or "nothing"
    raise DatasetError(
        f"{path} holds {contents}: neither data/demo_N/actions (robomimic) nor observations and "
        "action (aloha)"
    )


def _unknown(path: Path) -> DatasetError:
    known = "; ".join(f"{name}: {layout}" for name, layout in FORMATS.items())
    return DatasetError(f"--from={path} is of no known format. Known are: {known}")
