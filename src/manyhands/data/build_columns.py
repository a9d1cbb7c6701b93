"""Build readable columns from a dataset's features."""

from manyhands.data.columns import Column, MappedArray, NumberColumn, ObjectColumn, TextColumn
from manyhands.data.episodes import Source
from manyhands.data.frame_table import OBJECTS, FrameTable, open_table
from manyhands.data.images.cameras import CameraColumn, EmbeddedImages, ImageSource, VideoFrames
from manyhands.data.images.formats import image_format
from manyhands.data.read_options import ReadOptions
from manyhands.errors import DatasetError
from manyhands.lerobot_format import names


def build_columns(source: Source, reading: ReadOptions) -> dict[str, Column]:
    """A column per feature that is read, by its own name, and one for the task's text."""
    features = source.meta.info.features
    assert reading.home is not None
    table = open_table(source, reading.home)
    keys = [key for key in features if key not in reading.skip]
    columns = {key: _column(source, reading, key, table) for key in keys}
    return columns | {names.TASK: TextColumn(source.meta.tasks, _task_numbers(source, table))}


def image_source(source: Source, reading: ReadOptions, key: str) -> ImageSource:
    """The images of a camera as delivered."""
    feature = source.meta.info.features[key]
    form = image_format(
        feature, None if feature.is_depth else reading.image_size, reading.depth_unit
    )
    kind = VideoFrames if feature.dtype == names.VIDEO else EmbeddedImages
    return kind(source, key, form)


def _column(source: Source, reading: ReadOptions, key: str, table: FrameTable) -> Column:
    feature = source.meta.info.features[key]
    table.check(key)
    if feature.is_number:
        is_vector = reading.is_vector(key, feature)
        return NumberColumn(table.numbers[key].flat() if is_vector else table.numbers[key])
    if not feature.is_camera:
        return ObjectColumn(str(table.folder / OBJECTS), key)
    drops_single_axis = feature.dtype == names.VIDEO
    pictures = image_source(source, reading, key)
    if reading.cache is None:
        return CameraColumn(pictures, drops_single_axis)
    return reading.cache.column(key, pictures, drops_single_axis)


def _task_numbers(source: Source, table: FrameTable) -> MappedArray:
    table.check(names.TASK_INDEX)
    numbers, tasks = table.numbers[names.TASK_INDEX], source.meta.tasks
    for first, end in source.selection.frame_bounds:
        used = numbers.values[first:end]
        if used.size and not 0 <= used.min() <= used.max() < len(tasks):
            raise DatasetError(
                f"{source.root}: frames {first} to {end - 1} refer to task "
                f"{used.max() if used.min() >= 0 else used.min()}, but the dataset has "
                f"{len(tasks)} tasks"
            )
    return numbers
