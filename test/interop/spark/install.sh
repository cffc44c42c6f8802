#!/bin/sh
# Builds Spark's lightning SDK for mppx, from its authors' repository, into a folder of its own, for test/interop/spark:
#
#   sh test/interop/spark/install.sh ~/spark-mpp
#   BOLTGATE_SPARK=~/spark-mpp npx tap test/interop/spark/session.test.ts
#
# It needs git, npm and about a minute. SOURCE names a clone that is there already. The wallet SDK, which speaks to
# Spark's own servers, is left out: the test gives a wallet, and its class is never made.
set -eu

[ $# -eq 1 ] || { echo "usage: $0 <folder>" >&2; exit 2; }
commit=e18edff
mkdir -p "$1"
cd "$1"
git clone --quiet --no-checkout "${SOURCE:-https://github.com/buildonspark/lightning-mpp-sdk.git}" clone
git -C clone archive "$commit" sdk | tar x
cd sdk
rm -rf src/server src/index.ts src/__tests__ examples package-lock.json
echo '{ "name": "spark-mpp", "private": true, "type": "module" }' > package.json
npm install --silent --ignore-scripts --legacy-peer-deps --no-audit --no-fund \
  mppx@0.3.16 viem@2.54.6 light-bolt11-decoder@3.2.0 @noble/hashes@2.4.0 typescript@5.9.3 @types/node@24
wallet=node_modules/@buildonspark/spark-sdk
mkdir -p "$wallet"
echo '{ "name": "@buildonspark/spark-sdk", "type": "module", "exports": { ".": { "types": "./index.d.ts", "default": "./index.js" } } }' > "$wallet/package.json"
echo 'export class SparkWallet {}' > "$wallet/index.js"
echo 'export declare const SparkWallet: { initialize(options: object): Promise<{ wallet: any }> }' > "$wallet/index.d.ts"
node node_modules/typescript/bin/tsc -p tsconfig.build.json
echo "Spark's lightning SDK is built in $1"
