#!/bin/sh
# Installs Alby's wallet service for Nostr Wallet Connect and a relay beside this file, for test/interop/nwc:
#
#   sh test/interop/nwc/install.sh
#   npx tap test/interop/nwc/nwc.test.ts
#
# With BOLTGATE_LND_BIN (test/interop/lnd/install.sh) it runs over real lnd too.
set -eu
cd "$(dirname "$0")"
npm ci --silent --ignore-scripts
