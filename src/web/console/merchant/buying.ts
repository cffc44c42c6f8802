/** Whole programs that pay for an address and print what it says. */
export interface BuyersPrograms {
  readonly typescript: string
  readonly python: string
}

/**
 * Programs for people who buy at `url`, each with a library that is not ours and a wallet that its user has. Each is run
 * as it is shown by `test/interop/nwc`.
 */
export function programsFor(url: string): BuyersPrograms {
  return {
    typescript: `// npm install @getalby/sdk @getalby/lightning-tools
import { fetch402 } from '@getalby/lightning-tools/402'
import { NWCClient } from '@getalby/sdk'

// The address that your wallet shows for an app: nostr+walletconnect://…
const wallet = new NWCClient({ nostrWalletConnectUrl: process.env.NWC_URL })
const response = await fetch402(${JSON.stringify(url)}, {}, { wallet })
console.log(await response.text())
wallet.close()
`,
    python: `# pip install l402-requests
# NWC_CONNECTION_STRING is the address that your wallet shows for an app: nostr+walletconnect://…
import l402_requests

print(l402_requests.get(${JSON.stringify(url)}).text)
`
  }
}
