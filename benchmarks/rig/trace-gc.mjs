// Loaded before a program with --import: has its collections written to standard output, a line each.
import { setFlagsFromString } from 'node:v8'

setFlagsFromString('--trace-gc')
