"""What a figure was measured on: the commit, and a digest of every source that could change it."""

import hashlib
import subprocess
from functools import lru_cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_FOLDERS = ("spec", "hw_gen", "rtl", "golden_model", "sw", "cocotb_tests", "requirements")
_KINDS = (".py", ".sv", ".v", ".vlt", ".cpp", ".h", ".txt")


@lru_cache(maxsize=1)
def source_digest() -> str:
    """Digest of the project's sources and pinned packages as they are now, 16 hex digits.

    Equal digests give equal cycles and bits: the documentation and the tests do not count.
    """
    return digest_of(ROOT)


def digest_of(root: Path) -> str:
    """`source_digest` of the source tree at `root`."""
    out = hashlib.sha256()
    for folder in _FOLDERS:
        for path in sorted((root / folder).rglob("*")):
            name = path.relative_to(root)
            if path.suffix in _KINDS and "gen" not in name.parts:
                out.update(f"{name}\0".encode() + hashlib.sha256(path.read_bytes()).digest())
    return out.hexdigest()[:16]


@lru_cache(maxsize=1)
def commit() -> str:
    """The checked-out commit, `+` behind it if sources differ from it; '' outside a repository."""
    if not (ROOT / ".git").exists():
        return ""  # an installed package may lie in somebody else's repository
    try:
        head = _git("rev-parse", "--short=12", "HEAD")
        changed = _git("status", "--porcelain", "--", *_FOLDERS)
    except (OSError, subprocess.CalledProcessError):
        return ""
    return head + ("+" if changed else "")


def _git(*arguments: str) -> str:
    done = subprocess.run(
        ["git", "-C", str(ROOT), *arguments], capture_output=True, text=True, check=True
    )
    return done.stdout.strip()
