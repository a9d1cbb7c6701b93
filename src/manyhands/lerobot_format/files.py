"""The JSON and safetensors files of a policy folder: read strictly, written atomically."""

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from manyhands.atomic import atomic_file
from manyhands.errors import CheckpointError, UserError
from manyhands.os_errors import reading_remedy, reason_of

MAX_TEXT_BYTES = 1 << 28  # Bytes of a JSON file; parsed, it takes many times as much
_SYSTEM_ERROR = re.compile(r"\(os error (\d+)\)")
_LONGEST_DTYPE = "F8_E4M3"
_HEADER_STEP = 8  # The size of a safetensors header is a multiple of this


def read_text(path: Path, fault: type[UserError] = CheckpointError) -> str:
    """Read the text of a file."""
    try:
        # Reading a pipe or a device would block.
        if path.exists() and not path.is_file():
            raise fault(f"{path} is not a file; copy or download its folder again")
        if path.stat().st_size > MAX_TEXT_BYTES:
            raise ValueError(f"it is larger than {MAX_TEXT_BYTES:,} bytes")
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise fault(f"{path} is missing; copy or download its folder again") from None
    except (OSError, ValueError) as error:
        remedy = reading_remedy(error, "Copy or download it again")
        raise fault(f"{path} cannot be read: {reason_of(error)}. {remedy}") from None


def parse_json(text: str) -> Any:
    """Parse JSON; raises ValueError if it is invalid."""
    try:
        document = json.loads(text)
        if "\\u" in text:
            # Escapes can encode lone surrogates, which cannot be printed or written.
            json.dumps(document, ensure_ascii=False).encode("utf-8")
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    return document


def read_json(path: Path, fault: type[UserError] = CheckpointError) -> dict[str, Any]:
    """Read the object of a JSON file."""
    text = read_text(path, fault)
    try:
        document = parse_json(text)
    except ValueError as error:
        raise fault(f"{path} cannot be read as JSON: {error}; copy or download it again") from None
    if not isinstance(document, dict):
        raise fault(f"{path} must contain a JSON object, not {document!r:.60}")
    return document


def write_json(path: Path, document: Mapping[str, Any], indent: int) -> None:
    """Write a document as LeRobot does, without a final newline."""
    with atomic_file(path) as scratch:
        scratch.write_text(json.dumps(document, indent=indent), encoding="utf-8")


def read_tensors(path: Path) -> dict[str, Tensor]:
    """Read the tensors of a safetensors file by name, on the CPU."""
    if not path.is_file():
        raise CheckpointError(f"{path} is missing")
    try:
        return load_file(path)
    except (SafetensorError, OSError, ValueError, RuntimeError) as error:
        raise CheckpointError(
            f"{path} is damaged or not a safetensors file ({error}); copy it again from its source"
        ) from None


def write_tensors(
    path: Path, tensors: Mapping[str, Tensor], metadata: dict[str, str] | None = None
) -> None:
    """Write tensors to a safetensors file."""
    plain = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    with atomic_file(path) as scratch:
        write_tensors_in_place(scratch, plain, metadata)


def write_tensors_in_place(
    path: Path, tensors: Mapping[str, Tensor], metadata: dict[str, str] | None = None
) -> None:
    """Write contiguous CPU tensors in place; a full disk raises OSError."""
    try:
        save_file(dict(tensors), path, metadata)
    except SafetensorError as error:
        # The library reports system errors as its own error type.
        match = _SYSTEM_ERROR.search(str(error))
        if match is None:
            raise
        code = int(match[1])
        raise OSError(code, os.strerror(code), str(path)) from None


def tensors_num_bytes(
    tensors: Mapping[str, Tensor], metadata: Mapping[str, str] | None = None
) -> int:
    """The size of a safetensors file of some tensors, overestimated by a few bytes per tensor."""
    header: dict[str, Any] = {"__metadata__": dict(metadata or {})}
    end = 0
    for name, tensor in tensors.items():
        start, end = end, end + tensor.nbytes
        shape = list(tensor.shape)
        header[name] = {"dtype": _LONGEST_DTYPE, "shape": shape, "data_offsets": [start, end]}
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False)
    return 8 + -(-len(text.encode()) // _HEADER_STEP) * _HEADER_STEP + end
