# l402-requests: reads addresses, a line each, and prints the status that each came to. The wallet is LND's REST form at argv[1].
import base64
import sys

import httpx
from l402_requests import L402Client, WalletBase


class RestWallet(WalletBase):
    async def pay_invoice(self, bolt11: str) -> str:
        async with httpx.AsyncClient() as client:
            answer = await client.post(f"{sys.argv[1]}/v1/channels/transactions", json={"payment_request": bolt11})
            return base64.b64decode(answer.json()["payment_preimage"]).hex()


client = L402Client(wallet=RestWallet(), budget=None)
for line in sys.stdin:
    try:
        print(client.get(line.strip()).status_code, flush=True)
    except Exception as error:
        print(repr(error), flush=True)
