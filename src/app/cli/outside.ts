import { request } from 'undici'
import { AddressGuard } from '../../engine/upstream/guard.ts'
import { providerKinds } from '../../lightning/kinds/kinds.ts'
import { Secret } from '../../platform/keys/secrets.ts'
import { systemClock } from '../../platform/system/clock.ts'
import { ProviderUnavailable } from '../../lightning/provider-calls/errors.ts'
import { noDatabase } from './dry-run.ts'

const PATIENCE_MS = 5_000

/** What is wrong with an upstream; null where any HTTP response comes. */
export async function testUpstream(url: URL): Promise<string | null> {
  try {
    const response = await request(url, { method: 'GET', signal: AbortSignal.timeout(PATIENCE_MS) })
    // Aborts the rest of the response; the head is all that matters.
    response.body.on('error', () => {}).destroy()
    return null
  } catch (error) {
    // The address was validated: only the network or the server can fail.
    return error instanceof Error ? error.message : String(error)
  }
}

/** Models by the names of OpenAI and others that take no chat. */
const NO_CHAT = /embed|whisper|tts|audio|image|dall-e|moderation|realtime|transcribe|rerank|sora|babbage|davinci/i

/** The first model for chats that an OpenAI-compatible API lists; undefined without an answer that names one. */
export async function firstModel(url: string, key: string | undefined): Promise<string | undefined> {
  try {
    const response = await fetch(url, {
      headers: key === undefined ? {} : { authorization: `Bearer ${key}` },
      signal: AbortSignal.timeout(PATIENCE_MS)
    })
    const list = (await response.json()) as { data?: Array<{ id?: unknown }> } | null // checked below
    const ids = (list?.data ?? []).flatMap(({ id }) => (typeof id === 'string' && id.length <= 200 ? [id] : []))
    return ids.find(id => !NO_CHAT.test(id)) ?? ids[0]
  } catch {
    // An example is optional: `testUpstream` reports an upstream that is down.
    return undefined
  }
}

export interface TestedKey {
  readonly isValid: boolean
  /** The provider gave no verdict. */
  readonly isUnknown: boolean
  readonly message: string
}

/** Validates a provider key as saving one does: up to making an invoice. `kind` is one of `kinds.ts`. */
export async function testKey(kind: string, text: string, url: string | null = null): Promise<TestedKey> {
  const known = providerKinds.find(({ name }) => name === kind)
  if (known === undefined) throw new TypeError(`no provider kind ${kind}`)
  const fault = known.keyFault(text)
  if (fault !== undefined) return { isValid: false, isUnknown: false, message: fault }
  const key = new Secret(text)
  const provider = known.open({
    url,
    ownKey: key,
    timeout: 2 * PATIENCE_MS,
    clock: systemClock,
    guard: new AddressGuard({ production: false }),
    database: noDatabase,
    dataDir: '.',
    receiver: () => null,
    settled: async () => {}
  })
  try {
    return { ...(await provider.validateKey(key)), isUnknown: false }
  } catch (error) {
    if (!(error instanceof ProviderUnavailable)) throw error
    return {
      isValid: false,
      isUnknown: true,
      message: `${kind} gave no answer, so the key is not tested: ${error.message}`
    }
  } finally {
    await provider.close()
  }
}
