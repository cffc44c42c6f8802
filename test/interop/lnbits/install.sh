#!/bin/sh
# Installs LNbits from PyPI into a folder of its own, for test/interop/lnbits:
#
#   sh test/interop/lnbits/install.sh ~/lnbits
#   BOLTGATE_LNBITS=~/lnbits npx tap test/interop/lnbits/lnbits.test.ts
#
# It needs Python 3.10 to 3.12 (PYTHON names another than python3) and takes about two minutes.
set -eu

[ $# -eq 1 ] || { echo "usage: $0 <folder>" >&2; exit 2; }
"${PYTHON:-python3}" -m venv "$1"
# Newer bitstring breaks the BOLT 11 reader that this version uses.
"$1/bin/pip" install --quiet 'lnbits==1.6.2' 'bitstring<5'
"$1/bin/python" -c 'import lnbits, sys; print("lnbits is installed for Python", sys.version.split()[0])'
