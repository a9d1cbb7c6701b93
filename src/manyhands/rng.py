"""Seeds as a pure function of what they are for.

Nothing here remembers anything: a run that resumes at step N derives the same numbers as one that
never stopped, and two ranks or two purposes never share a stream.
"""

from hashlib import blake2b


def derive_seed(seed: int, stream: str, *indices: int) -> int:
    """A 63-bit seed that depends on all arguments and on nothing else."""
    label = "/".join([str(seed), stream, *map(str, indices)])
    return int.from_bytes(blake2b(label.encode(), digest_size=8).digest(), "big") >> 1
