#!/bin/sh
# Builds lnd, lncli, btcd and btcctl from their released Go modules into a folder, for test/interop/lnd:
#
#   sh test/interop/lnd/install.sh ~/lnd-bin
#   BOLTGATE_LND_BIN=~/lnd-bin npx tap test/interop/lnd/lnd.test.ts
#
# It needs Go 1.24.9 or newer and takes 5 to 25 minutes. Nothing else is written but Go's own caches.
set -eu

lnd=v0.20.0-beta
btcd=v0.24.2
tags='autopilotrpc chainrpc invoicesrpc neutrinorpc routerrpc signrpc walletrpc'

[ $# -eq 1 ] || { echo "usage: $0 <folder for the programs>" >&2; exit 2; }
mkdir -p "$1"
bin=$(cd "$1" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

echo "btcd $btcd"
GOBIN=$bin go install "github.com/btcsuite/btcd@$btcd" "github.com/btcsuite/btcd/cmd/btcctl@$btcd"

# `go install` refuses modules whose go.mod replaces others, as lnd's does; the same replacements are listed here.
echo "lnd $lnd"
cat > go.mod <<MOD
module lnd-programs

go 1.24.9

require github.com/lightningnetwork/lnd $lnd

replace github.com/ulikunitz/xz => github.com/ulikunitz/xz v0.5.11

replace github.com/gogo/protobuf => github.com/gogo/protobuf v1.3.2

replace google.golang.org/protobuf => github.com/lightninglabs/protobuf-go-hex-display v1.33.0-hex-display
MOD
cat > programs.go <<'GO'
//go:build tools

package programs

import (
	_ "github.com/lightningnetwork/lnd/cmd/lncli"
	_ "github.com/lightningnetwork/lnd/cmd/lnd"
)
GO
go mod tidy
GOBIN=$bin go install -tags "$tags" github.com/lightningnetwork/lnd/cmd/lnd github.com/lightningnetwork/lnd/cmd/lncli
ls "$bin"
