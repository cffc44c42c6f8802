# L402sdk: reads addresses, a line each, and prints the status that each came to. Its own LND backend pays at argv[1].
import sys

from l402 import L402Client

client = L402Client.with_lnd_rest(sys.argv[1], "00")
for line in sys.stdin:
    try:
        print(client.get(line.strip()).status, flush=True)
    except Exception as error:
        print(repr(error), flush=True)
