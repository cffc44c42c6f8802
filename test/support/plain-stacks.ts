// Types are stripped in place, so lines and columns are the sources' own. tap asks Node for source maps all the same, which
// then reads and parses those of every package: a third of what it takes to load the gateway.
process.setSourceMapsEnabled(false)
