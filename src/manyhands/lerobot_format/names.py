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
}  # Features every dataset ends with, all of shape [1], and their dtypes

TASK = "task"  # Key of the task's text in an item; the table holds its number only
PAD_SUFFIX = "_is_pad"  # Ending of the key that marks entries of a window outside the episode

LANGUAGE_TOKENS = "observation.language.tokens"
LANGUAGE_MASK = "observation.language.attention_mask"
"""Keys of a task's text as a policy reads it, and of which tokens are more than padding."""

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

# Files of versions 2.0 and 2.1 instead.
TASK_LINES_FILE = "meta/tasks.jsonl"
EPISODE_LINES_FILE = "meta/episodes.jsonl"
EPISODE_STATS_LINES_FILE = "meta/episodes_stats.jsonl"
V2_DATA_PATH = "data/chunk-{episode_chunk:03d}/episode_{episode_index:06d}.parquet"
V2_VIDEO_PATH = "videos/chunk-{episode_chunk:03d}/{video_key}/episode_{episode_index:06d}.mp4"
