"""Checks of installed packages: supported versions, extras."""

import platform
import re
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version

from manyhands.doctor.check import Check
from manyhands.version import VERSION

MIN_VERSIONS = {
    "torch": "2.9",
    "accelerate": "1.10",
    "safetensors": "0.5",
    "numpy": "1.26",
    "pyarrow": "17",
    "av": "14",
    "draccus": "0.11",
    "huggingface_hub": "0.34",
    "rich": "13",
    "psutil": "6",
    "nvidia-ml-py": "12",
    "pyyaml": "6",
}
NEWEST_TESTED = {"torch": "2.13"}
PYTHON = ("3.11", "3.13")
EXTRAS = {
    "smolvla": ("transformers", "tokenizers", "peft"),
    "sim": ("gymnasium", "gym-pusht", "pymunk", "gym-aloha"),
    "track": ("wandb", "tensorboard", "trackio"),
    "import": ("h5py", "zarr", "protobuf", "google-crc32c"),
    "report": ("matplotlib", "jinja2"),
}

Versions = Mapping[str, str | None]


def installed(names: Sequence[str]) -> Versions:
    """The version of each package; None if it is missing."""
    return {name: _version(name) for name in names}


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def check_software() -> Iterator[Check]:
    """Check Python, packages and extras."""
    yield check_python(platform.python_version())
    versions = installed([*MIN_VERSIONS])
    yield check_packages(versions)
    yield check_newest(versions)
    yield check_extras(installed([name for names in EXTRAS.values() for name in names]))


def numbers(text: str) -> tuple[int, ...]:
    """The release numbers of a version, to compare."""
    found = re.match(r"\d+(\.\d+)*", text)
    return tuple(int(each) for each in found[0].split(".")) if found else ()


def check_python(current: str) -> Check:
    """Whether this Python is supported."""
    oldest, newest = PYTHON
    found = f"Python {current}, manyhands {VERSION}"
    if numbers(current) < numbers(oldest):
        return Check("Python", "fail", found, f"Install Python {oldest} to {newest}")
    if numbers(current)[:2] > numbers(newest):
        return Check("Python", "warn", found, f"Tested with Python {oldest} to {newest}")
    return Check("Python", "ok", found)


def check_packages(versions: Versions) -> Check:
    """Whether every required package is there and new enough."""
    faults = [
        f"{name} {current or 'missing'} (needs {MIN_VERSIONS[name]})"
        for name, current in versions.items()
        if current is None or numbers(current) < numbers(MIN_VERSIONS[name])
    ]
    if faults:
        remedy = "Run pip install -U manyhands"
        return Check("packages", "fail", ", ".join(faults), remedy)
    return Check("packages", "ok", ", ".join(f"{name} {versions[name]}" for name in versions))


def check_newest(versions: Versions) -> Check:
    """Whether a package is newer than any that was tested."""
    newer = [
        f"{name} {current} (tested up to {NEWEST_TESTED[name]})"
        for name in NEWEST_TESTED
        if (current := versions.get(name)) and numbers(current)[:2] > numbers(NEWEST_TESTED[name])
    ]
    if newer:
        remedy = "If something fails, install the newest tested version"
        return Check("tested versions", "warn", ", ".join(newer), remedy)
    return Check("tested versions", "ok", "no package is newer than tested")


def check_extras(versions: Versions) -> Check:
    """Which extras are installed; none is required."""
    complete = [
        extra for extra, names in EXTRAS.items() if all(versions.get(name) for name in names)
    ]
    missing = [extra for extra in EXTRAS if extra not in complete]
    found = f"installed: {', '.join(complete) or 'none'}"
    if not missing:
        return Check("extras", "ok", found)
    remedy = f"If you need them: pip install 'manyhands[{','.join(missing)}]'"
    return Check("extras", "ok", f"{found}; not installed: {', '.join(missing)}", remedy)
