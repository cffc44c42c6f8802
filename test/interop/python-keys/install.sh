#!/bin/sh
# Installs the Python clients of model APIs beside this file.
set -eu
cd "$(dirname "$0")"
python3 -m venv python
python/bin/pip install --quiet --requirement requirements.txt
