"""The digest of a run, in the record of its partition: is this what was written?

It is cryptographic, so a file of the host that has it can be trusted: another one with the same
digest cannot be made. Records of older formats have CRC-32 checksums, which anybody can match. They
detect damage in the state store, but a file of the host is not trusted for one.
"""

from __future__ import annotations

import hashlib
import zlib
from typing import TypeAlias

import pyarrow as pa

Data: TypeAlias = bytes | memoryview | pa.Buffer

_CRC = "crc32:"


def digest_of(data: Data) -> str:
    """The digest of a run."""
    return f"blake2b:{hashlib.blake2b(data, digest_size=32).hexdigest()}"


def old_digest(checksum: int) -> str:
    """A checksum of an older format, as a digest."""
    return f"{_CRC}{checksum:08x}"


def is_trusted(digest: str) -> bool:
    """Whether a file with this digest must be what was written."""
    return not digest.startswith(_CRC)


def digest_like(digest: str, data: Data) -> str:
    """The digest of data, of the same kind as ``digest``."""
    return digest_of(data) if is_trusted(digest) else old_digest(zlib.crc32(data))
