"""The database's tables. `docs/regression.md` describes them for those who query it.

`VERSION` is in `PRAGMA user_version`. A change that old queries would not survive takes the next
number, and a release that meets another number than its own refuses the file.
"""

VERSION = 1

TABLES = """
CREATE TABLE campaigns (
  id            INTEGER PRIMARY KEY,
  key           TEXT NOT NULL,     -- digest of name, plan, commit and sources: what resumes what
  kind          TEXT NOT NULL,     -- regress, sweep
  name          TEXT NOT NULL,     -- of the suite or space
  git_commit    TEXT NOT NULL,     -- 12 hex digits, or unknown
  dirty         INTEGER NOT NULL,  -- 1: sources differed from the commit
  source_digest TEXT NOT NULL,
  options       TEXT NOT NULL,     -- JSON
  pid           INTEGER NOT NULL,  -- of the last process that ran it
  created_at    TEXT NOT NULL,     -- UTC, ISO 8601, as all times here
  finished_at   TEXT               -- when nothing was left to run
);
CREATE INDEX campaigns_by_key ON campaigns(key);

CREATE TABLE runs (
  id            INTEGER PRIMARY KEY,
  campaign      INTEGER NOT NULL REFERENCES campaigns(id),
  position      INTEGER NOT NULL,  -- in the plan
  task          TEXT NOT NULL,     -- JSON: all that a worker needs
  kind          TEXT NOT NULL,     -- run, build, lint, programs, point
  workload      TEXT NOT NULL,
  config        TEXT NOT NULL,     -- name
  config_digest TEXT NOT NULL,
  device        TEXT NOT NULL,     -- golden, rtl, or empty
  seed          INTEGER NOT NULL,
  latency       INTEGER NOT NULL,
  stall         REAL NOT NULL,
  git_commit    TEXT NOT NULL,
  dirty         INTEGER NOT NULL,
  status        TEXT NOT NULL,     -- waiting, running, passed, failed, timeout, …
  attempts      INTEGER NOT NULL DEFAULT 0,
  started_at    TEXT,              -- of the last attempt
  finished_at   TEXT,
  cycles        INTEGER,
  macs          INTEGER,
  compared      INTEGER,           -- elements
  counters      TEXT,              -- JSON: engine -> state -> cycles
  read_bytes    INTEGER,           -- from the NPU's memory
  write_bytes   INTEGER,
  wall_s        REAL,              -- of the device alone
  message       TEXT,
  mismatch      TEXT,              -- JSON: layer, instruction, text, element, expected, got
  image_digest  TEXT,
  figures       TEXT,              -- JSON: what else was measured
  UNIQUE (campaign, position)
);
"""
