/** A Lightning address of a real LNbits, whose own addresses do not say what was paid: all of it is read, and it is refused for that alone. */
import t from 'tap'
import { openKind } from '../../lightning/open-kind.ts'
import { Secret } from '../../../src/platform/keys/secrets.ts'
import { lnurl } from '../../../src/lightning/kinds/lnurl/lnurl.ts'
import { systemClock } from '../../../src/platform/system/clock.ts'
import { openTestDatabase } from '../../support/database.ts'
import { findLnbits, startLnbits } from './instance.ts'

const folder = findLnbits()
const skip = folder === null ? 'LNbits is not at hand: see test/interop/lnbits/install.sh' : false

t.test('an address of a real LNbits', { skip }, async t => {
  const instance = await startLnbits(t, folder ?? '', {
    LNBITS_BACKEND_WALLET_CLASS: 'FakeWallet',
    FAKE_WALLET_SECRET: 'a secret of a test',
    LNBITS_ALLOW_CUSTOM_WALLET_LIGHTNING_ADDRESSES: 'true'
  })
  const seller = await instance.wallet('seller')
  await seller.api('PATCH', '/api/v1/wallet', { lightning_address: 'myshop' })
  const database = await openTestDatabase(t, {})
  const provider = openKind(t, lnurl, { timeout: 20_000, clock: systemClock, database })
  const address = (name: string) => new Secret(`lnurlp+${instance.url}/.well-known/lnurlp/${name}`)
  t.match(await provider.validateKey(address('myshop')), { isValid: false, message: /gives no verify address, LUD-21/ })
  t.match(await provider.validateKey(address('nobody')), { isValid: false, message: /Lightning address not found/ })
})
