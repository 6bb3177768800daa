#!/bin/sh
# Debian packages that tests use and that pip has not: chromium for pages, PostgreSQL for results.
# Tests of what is not there are skipped and say so; this script fails nothing.
set -u
wanted=""
command -v chromium >/dev/null || wanted="$wanted chromium"
ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || wanted="$wanted postgresql"
[ -n "$wanted" ] || exit 0
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
  echo "tools/debian.sh: not installed:$wanted (needs root and apt-get); their tests are skipped"
  exit 0
fi
export DEBIAN_FRONTEND=noninteractive
# shellcheck disable=SC2086  # several words are meant
apt-get update -qq && apt-get install -qq --no-install-recommends $wanted ||
  echo "tools/debian.sh: could not install$wanted; their tests are skipped"
exit 0
