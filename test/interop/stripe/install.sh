#!/bin/sh
# Builds stripe-mock from its released Go module into a folder, for test/interop/stripe:
#
#   sh test/interop/stripe/install.sh ~/stripe-bin
#   BOLTGATE_STRIPE_MOCK_BIN=~/stripe-bin npx tap test/interop/stripe/stripe.test.ts
#
# It needs Go 1.21 or newer and takes a minute. Nothing else is written but Go's own caches.
set -eu

stripe_mock=v0.203.0

[ $# -eq 1 ] || { echo "usage: $0 <folder for the program>" >&2; exit 2; }
mkdir -p "$1"
bin=$(cd "$1" && pwd)

echo "stripe-mock $stripe_mock"
GOBIN=$bin go install "github.com/stripe/stripe-mock@$stripe_mock"
ls "$bin"
