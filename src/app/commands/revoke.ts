import { readAuthorization } from '../../lightning/codecs/credential.ts'
import { decodeIdentifier, decodeMacaroonBase64, MacaroonError } from '../../lightning/l402/macaroon.ts'
import { parsePaymentToken } from '../../lightning/payment-scheme/payment-credential.ts'
import { isHex32, paymentHashOf } from '../../lightning/codecs/hmac.ts'
import { GATEWAY_FLAGS } from '../cli/help.ts'
import { defineCommand } from '../cli/command.ts'
import { callAdmin } from '../cli/admin-call.ts'
import { beginningOf } from '../cli/gateway-call.ts'
import { UsageError, OTHER_RESPONSE } from '../cli/output.ts'
import { CodedError } from '../../platform/system/errors.ts'

export const revoke = defineCommand(
  {
    about: 'Revokes credentials that were sold',
    takes: '[<payment-hash> | <credential>]',
    details: `Revokes the credentials of one payment, given by its hash or by a credential in quotes, or everything issued until now
for a proxy or a merchant. Credentials sold later stay valid. Takes effect on every node within 5 seconds.`,
    flags: {
      '--proxy <id>': 'Revoke what was issued for this proxy',
      '--merchant <id>': 'Revoke what was issued for this merchant',
      ...GATEWAY_FLAGS
    },
    examples: ['boltgate revoke --proxy 4f1c…', "boltgate revoke 'L402 AgEE…:8395…'"]
  },
  async (values, words, out) => {
    const path = pathOf(words, values.proxy, values.merchant)
    const { url, status, text } = await callAdmin('DELETE', path, null, values)
    if (status === 204) {
      out.print('Revoked: every credential of this payment is refused.')
      return 0
    }
    if (status === 200) {
      const { issuedUntil } = JSON.parse(text) as { issuedUntil: string }
      out.print(`Revoked: everything issued until ${issuedUntil} is refused.`)
      return 0
    }
    throw new CodedError(OTHER_RESPONSE, `${url} answered ${status}: ${beginningOf(text)}`)
  }
)

function pathOf(positionals: readonly string[], proxy: string | undefined, merchant: string | undefined): string {
  const [what, ...more] = positionals
  const named = [what, proxy, merchant].filter(name => name !== undefined)
  if (named.length === 0)
    throw new UsageError(`Nothing to revoke: give a payment hash, a credential, --proxy or --merchant.`)
  if (named.length > 1 || more.length > 0)
    throw new UsageError(
      `Give only one of a payment hash, a credential, --proxy and --merchant; put a credential in quotes.`
    )
  if (proxy !== undefined) return `/api/admin/proxies/${encodeURIComponent(proxy)}/tokens`
  if (merchant !== undefined) return `/api/admin/merchants/${encodeURIComponent(merchant)}/tokens`
  return `/api/admin/tokens/${hashOf(what ?? '')}`
}

/** Payment hash: the text itself, or of a credential. */
function hashOf(text: string): string {
  const hash = text.trim().toLowerCase()
  if (isHex32(hash)) return hash
  const credential = readAuthorization(text.trim())
  try {
    if (credential.kind === 'classic')
      return decodeIdentifier(decodeMacaroonBase64(credential.macaroon).identifier).paymentHash
  } catch (error) {
    if (error instanceof MacaroonError) throw new UsageError(`The macaroon cannot be read: ${error.message}`)
    throw error
  }
  if (credential.kind === 'legacy') return paymentHashOf(credential.preimage)
  if (credential.kind === 'modern') {
    const parsed = parsePaymentToken(credential.token)
    if (parsed.ok) return parsed.credential.charge.paymentHash
    throw new UsageError(`The credential cannot be read: ${parsed.detail}`)
  }
  throw new UsageError(
    `"${text.slice(0, 80)}" is neither a payment hash of 64 hex characters nor a credential such as 'L402 <macaroon>:<preimage>'.`
  )
}
