"""Names LeRobot gives to the features, files and folders of a dataset."""

ACTION = "action"
OBSERVATION = "observation"
ENVIRONMENT_STATE = "observation.environment_state"

TIMESTAMP = "timestamp"
FRAME_INDEX = "frame_index"
EPISODE_INDEX = "episode_index"
INDEX = "index"
TASK_INDEX = "task_index"

RESERVED_FEATURES = {
    TIMESTAMP: "float32",
    FRAME_INDEX: "int64",
    EPISODE_INDEX: "int64",
    INDEX: "int64",
    TASK_INDEX: "int64",
}
"""Features every dataset ends with, all of shape [1], and their dtypes."""

TASK = "task"
"""Key of the task's text in an item; the table holds its number only."""
PAD_SUFFIX = "_is_pad"
"""Ending of the key that marks which entries of a window lie outside the episode."""

IMAGE = "image"
VIDEO = "video"
STRING = "string"
LANGUAGE = "language"

CODEBASE_VERSION = "v3.0"
INFO_FILE = "meta/info.json"
STATS_FILE = "meta/stats.json"
TASKS_FILE = "meta/tasks.parquet"
EPISODES_FOLDER = "meta/episodes"
EPISODES_PATH = EPISODES_FOLDER + "/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet"
DATA_PATH = "data/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet"
VIDEO_PATH = "videos/{video_key}/chunk-{chunk_index:03d}/file-{file_index:03d}.mp4"
