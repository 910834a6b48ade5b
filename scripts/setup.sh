# Sourced by scripts/demo and scripts/test: a virtual environment in .venv with the project and its tests' needs.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
python="${PYTHON:-python3}"
if ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
    echo "beebo_scale needs Python 3.11 or newer; set PYTHON to one" >&2
    exit 1
fi
# A stamp of what was installed, so that a change of either file installs again and a broken install is not kept.
stamp=".venv/installed"
wanted="$(cat pyproject.toml constraints.txt | sha256sum)"
if [ "$(cat "$stamp" 2>/dev/null)" != "$wanted" ]; then
    echo "setting up .venv"
    "$python" -m venv .venv
    .venv/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[test]'
    echo "$wanted" >"$stamp"
fi
export PATH="$PWD/.venv/bin:$PATH"
