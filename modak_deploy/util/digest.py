"""Digests of JSON values."""

import hashlib
import json
from typing import Any


def sha256_of(value: Any) -> str:
    """Return the SHA-256 of a JSON value in its canonical form."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()
