"""LNbits' own clients for phoenixd and clnrest before one of our fakes; wallets.test.ts starts it.

Arguments: the wallet's class and its settings as JSON. Each line on standard input is a call, as JSON: a method and its
arguments. Each line on standard output is a result.
"""

import asyncio
import importlib
import json
import sys

from lnbits.settings import settings


async def main() -> None:
    module, name, given = sys.argv[1:4]
    for key, value in json.loads(given).items():
        setattr(settings, key, value)
    wallet = getattr(importlib.import_module(f"lnbits.wallets.{module}"), name)()
    loop = asyncio.get_running_loop()
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        method, arguments = json.loads(line)
        outcome = await getattr(wallet, method)(**arguments)
        print(json.dumps({key: getattr(outcome, key, None) for key in dir(outcome) if key[0] != "_"}, default=str), flush=True)


asyncio.run(main())
