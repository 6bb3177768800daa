"""Commits of a source tree, and worktrees of them that leave the user's own tree alone."""

import contextlib
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from sw.results.task import CampaignError
from sw.runtime.scratch import Scratch


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """sha: all 40 digits."""

    sha: str
    author: str
    date: str
    subject: str
    message: str

    @property
    def short(self) -> str:
        return self.sha[:12]


class Repository:
    """The git repository at `root`; `CampaignError` if there is none."""

    def __init__(self, root: Path) -> None:
        self.root = root
        if not (root / ".git").exists():
            raise CampaignError(
                f"{root}: no git repository; `systola bisect` needs the commits: run it from a "
                "clone, or say where one is with --repo"
            )
        self._git("worktree", "prune")

    def commit(self, name: str) -> Commit:
        """The commit of a hash, branch or tag; `CampaignError` if there is none."""
        try:
            sha = self._git(
                "rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}"
            )
        except CampaignError:
            raise CampaignError(
                f"commit {name!r}: {self.root} has no such commit, branch or tag (a shallow clone "
                "has only the newest: `git fetch --unshallow`)"
            ) from None
        return self._commits(sha, "--max-count=1")[0]

    def line(self, good: Commit, bad: Commit) -> list[Commit]:
        """Commits after `good` up to `bad`, the oldest first, along first parents of merges.

        A merge stands for all that it brought. `CampaignError` if `good` is not on that line.
        """
        line = self._commits(bad.sha, "--first-parent")
        found = [commit.sha for commit in line]
        if good.sha not in found:
            raise CampaignError(
                f"good commit {good.short} is no ancestor of {bad.short} along first parents; "
                "name one that `git log --first-parent` of the bad commit lists"
            )
        between = line[: found.index(good.sha)]
        if not between:
            raise CampaignError(f"good and bad are the same commit, {good.short}")
        return between[::-1]

    def first_parents(self, bad: Commit) -> list[Commit]:
        """`bad` and all before it along first parents, the newest first."""
        return self._commits(bad.sha, "--first-parent")

    def is_changed(self) -> bool:
        """Whether the user's tree has changes that no commit has."""
        return bool(self._git("status", "--porcelain", "--untracked-files=no"))

    @contextmanager
    def checked_out(self, commit: Commit) -> Iterator[Path]:
        """A worktree of `commit` in a temporary folder, gone afterwards whatever happens."""
        with Scratch("bisect") as scratch:
            tree = scratch.path / "tree"
            try:
                self._git("worktree", "add", "--detach", "--force", str(tree), commit.sha)
                yield tree
            finally:
                with contextlib.suppress(CampaignError):
                    self._git("worktree", "remove", "--force", str(tree))
                shutil.rmtree(tree, ignore_errors=True)
                with contextlib.suppress(CampaignError):
                    self._git("worktree", "prune")

    def _commits(self, *arguments: str) -> list[Commit]:
        form = "%H%x1f%an%x1f%aI%x1f%s%x1f%B%x1e"
        text = self._git("log", f"--format={form}", *arguments, "--")
        found = []
        for record in filter(None, (part.strip("\n") for part in text.split("\x1e"))):
            sha, author, date, subject, message = record.split("\x1f")
            found.append(
                Commit(sha=sha, author=author, date=date, subject=subject, message=message.strip())
            )
        return found

    def _git(self, *arguments: str) -> str:
        try:
            done = subprocess.run(
                ["git", "-C", str(self.root), *arguments],
                capture_output=True,
                text=True,
                errors="replace",
                check=True,
                stdin=subprocess.DEVNULL,
            )
        except FileNotFoundError:
            raise CampaignError("git: not found; install it") from None
        except subprocess.CalledProcessError as error:
            raise CampaignError(f"git {arguments[0]}: {error.stderr.strip()}") from None
        return done.stdout.strip()
