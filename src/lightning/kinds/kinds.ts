import type { ProviderKind } from './kind.ts'
import { blink } from './blink/blink.ts'
import { btcpay } from './btcpay/btcpay.ts'
import { cln } from './cln/cln.ts'
import { lnbits } from './lnbits/lnbits.ts'
import { lnd } from './lnd/lnd.ts'
import { lnurl } from './lnurl/lnurl.ts'
import { nwc } from './nwc/nwc.ts'
import { phoenixd } from './phoenixd/phoenixd.ts'
import { opennode } from './opennode/opennode.ts'
import { sandbox } from './sandbox/sandbox.ts'
import { strike } from './strike/strike.ts'

/** Every kind, in display order. A new one is a folder and a line here. */
export const providerKinds: readonly ProviderKind[] = [
  sandbox,
  strike,
  opennode,
  lnd,
  phoenixd,
  cln,
  lnbits,
  lnurl,
  btcpay,
  nwc,
  blink
]
