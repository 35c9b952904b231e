#!/bin/sh
# Makes .venv with the given Python (3.11 or newer). Debian and Ubuntu split venv off Python: as root it is installed,
# elsewhere the one line that does it is printed.
set -eu
python=$1
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "$python is older than 3.11: make PYTHON=python3.12 ..." >&2; exit 1; }
if ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
  version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
  if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    apt-get update -qq && apt-get install -y -qq "python$version-venv" >/dev/null
  else
    echo "this Python has no venv: sudo apt-get install python$version-venv" >&2; exit 1
  fi
fi
[ -x .venv/bin/pip ] || "$python" -m venv .venv
