#!/bin/sh
# Installs the clients that keep their tokens, beside this file: sulu's l402 for Node, l402-requests and L402sdk for Python.
set -eu
cd "$(dirname "$0")"
npm ci --silent
python3 -m venv python
python/bin/pip install --quiet --requirement requirements.txt
