#!/bin/sh
# Builds Amboss' lightning SDK for mppx, from its authors' repository, into a folder of its own, for test/interop/amboss:
#
#   sh test/interop/amboss/install.sh ~/amboss-mpp
#   BOLTGATE_AMBOSS=~/amboss-mpp npx tap test/interop/amboss/session.test.ts
#
# It needs git, npm and about a minute. SOURCE names a clone that is there already. Only the SDK itself is built, with the
# mppx that its authors name; its adapters to nodes are left out, since the test gives a wallet.
set -eu

[ $# -eq 1 ] || { echo "usage: $0 <folder>" >&2; exit 2; }
commit=7f80fd3
mkdir -p "$1"
cd "$1"
git clone --quiet --no-checkout "${SOURCE:-https://github.com/AmbossTech/lightning-mpp-sdk.git}" clone
git -C clone archive "$commit" packages/sdk tsconfig.base.json | tar x
cd packages/sdk
rm -f src/*.test.ts src/*/*.test.ts
npm install --silent --ignore-scripts --legacy-peer-deps --no-audit --no-fund --omit=dev
npm install --silent --ignore-scripts --legacy-peer-deps --no-audit --no-fund --no-save viem@2.54.6 typescript@5.7.3 @types/node@24
node node_modules/typescript/bin/tsc -p tsconfig.json --outDir dist --noEmit false
echo "Amboss' lightning SDK is built in $1"
