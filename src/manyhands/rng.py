"""Seeds as a pure function of their purpose.

There is no state: a run that resumes at step N derives the same numbers as an uninterrupted one,
and two ranks or two purposes never use the same stream.
"""

from hashlib import blake2b


def derive_seed(seed: int, stream: str, *indices: int) -> int:
    """A 63-bit seed that depends on all arguments and on nothing else."""
    label = "/".join([str(seed), stream, *map(str, indices)])
    return int.from_bytes(blake2b(label.encode(), digest_size=8).digest(), "big") >> 1
