import { hash } from 'node:crypto'
import { isIP } from 'node:net'
import type { AuthenticationResponseJSON, RegistrationResponseJSON } from '@simplewebauthn/server'
import { ALREADY_EXISTS, LIMIT_REACHED } from '../../../engine/operations/error-kinds.ts'
import { LongError, ShortError } from '../../../engine/operations/errors.ts'
import { Secret } from '../../../platform/keys/secrets.ts'
import { type Outbox, oneLine, shortSubject } from '../../mail/outbox.ts'
import { randomToken, rowId } from '../../../platform/system/ids.ts'
import type { Log } from '../../../platform/telemetry/log.ts'
import type { Browser, Sessions, SessionsDependencies, SignedIn } from '../sessions.ts'
import type { Person, SqlSignInStore } from '../store.ts'
import { CEREMONY_LIFE, digestOf, isSignInToken } from '../cookie.ts'
import type { OwnedPasskey, SqlPasskeyStore, StoredPasskey } from './store.ts'
import { ALGORITHMS, PasskeyRefused, verifyCreation, verifyUse, type Expected } from './webauthn.ts'
import { defineError } from '../../../platform/system/errors.ts'
import type { Mail } from '../../mail/mail.ts'

const PASSKEY_REFUSED = defineError('BG_PASSKEY_REFUSED', {
  status: 400,
  title: 'Passkey refused',
  cause: 'The passkey response is expired, was started in another session, or is for another origin.',
  fix: 'Start again within five minutes, at the address in `publicUrl`.'
})

const PASSKEYS_IMPOSSIBLE = defineError('BG_PASSKEYS_IMPOSSIBLE', {
  status: 409,
  title: 'No passkeys here',
  cause: 'Browsers create passkeys only for host names over https, and for localhost.',
  fix: 'Set `server.publicUrl` to the https address that people use.'
})

export interface PasskeyDependencies extends Pick<
  SessionsDependencies,
  'clock' | 'database' | 'operators' | 'publicUrl' | 'random'
> {
  readonly store: SqlPasskeyStore
  readonly people: Pick<SqlSignInStore, 'accountOf' | 'enter'>
  readonly sessions: Pick<Sessions, 'open'>
  readonly outbox: Pick<Outbox, 'queue'>
  readonly log: Log
}

const MOST_PASSKEYS = 20

/**
 * Passkeys of persons, independent of accounts. A ceremony is valid once, for five minutes, in the same browser and at
 * the gateway's public origin. Its challenge is derived from a token that only that browser has.
 */
export class Passkeys {
  readonly #dependencies: PasskeyDependencies
  readonly store: SqlPasskeyStore

  constructor(dependencies: PasskeyDependencies) {
    this.#dependencies = dependencies
    this.store = dependencies.store
  }

  /**
   * Whether the public address supports passkeys: https or localhost, never an IP address (WebAuthn Level 3, 5.1.3).
   */
  get areAvailable(): boolean {
    const { hostname, protocol } = new URL(this.#dependencies.publicUrl())
    const isLocal = hostname === 'localhost' || hostname.endsWith('.localhost')
    return (protocol === 'https:' || isLocal) && isIP(hostname.replaceAll(/[[\]]/g, '')) === 0
  }

  /**
   * Starts a registration.
   * @throws LongError 409 where passkeys are unsupported, Unavailable
   */
  async beginAdding(person: Person) {
    const { store } = this.#dependencies
    const [handle, known] = [await store.handleOf(person.id), await store.list(person.id)]
    const { token, expected } = await this.#begin(person.id)
    return {
      token,
      /** For `parseCreationOptionsFromJSON`. */
      publicKey: {
        challenge: expected.challenge,
        rp: { id: expected.rpId, name: expected.rpId },
        user: { id: handleText(handle), name: person.email, displayName: person.email },
        pubKeyCredParams: ALGORITHMS.map(alg => ({ type: 'public-key', alg })),
        timeout: CEREMONY_LIFE,
        excludeCredentials: known.map(({ credentialId, transports }) => ({
          type: 'public-key',
          id: credentialId,
          transports: [...transports]
        })),
        authenticatorSelection: { residentKey: 'required', requireResidentKey: true, userVerification: 'required' },
        attestation: 'none'
      }
    }
  }

  /**
   * Adds the new passkey and notifies the person by mail.
   * @throws LongError 400 for an invalid response, ShortError 409 for a duplicate and above the limit; Unavailable
   */
  async add(
    person: Person,
    token: string | null,
    name: string,
    response: RegistrationResponseJSON
  ): Promise<StoredPasskey> {
    const { clock, database, outbox, publicUrl, random, store } = this.#dependencies
    const expected = await this.#end(token, person.id)
    if (expected === null) throw refused('It was begun too long ago, or elsewhere. Begin again.')
    const credential = await this.#judged(() => verifyCreation(response, expected))
    if (credential === null)
      throw refused('The browser made no passkey that works here. Try again, or use another device.')
    const now = clock.now()
    const passkey: StoredPasskey = {
      id: rowId(now, random),
      personId: person.id,
      credentialId: credential.id,
      publicKey: credential.publicKey,
      counter: credential.counter,
      transports: response.response.transports ?? [],
      isSynced: credential.isSynced,
      name,
      createdAt: now,
      usedAt: null
    }
    await database.transaction(async sql => {
      if ((await store.count(sql, person.id)) >= MOST_PASSKEYS)
        throw new ShortError(LIMIT_REACHED, 'A person has at most 20 passkeys')
      if (!(await store.insert(sql, passkey))) throw new ShortError(ALREADY_EXISTS, 'This passkey was added already')
      await outbox.queue(sql, passkeyMail(person.email, passkey, publicUrl()), 'notice of a new passkey')
    })
    return passkey
  }

  /**
   * Starts a sign-in.
   * @throws LongError 409 where passkeys are unsupported, Unavailable
   */
  async beginSignIn() {
    const { token, expected } = await this.#begin(null)
    return {
      token,
      /** For `parseRequestOptionsFromJSON`. */
      publicKey: {
        challenge: expected.challenge,
        rpId: expected.rpId,
        timeout: CEREMONY_LIFE,
        userVerification: 'required',
        allowCredentials: []
      }
    }
  }

  /**
   * Signs in to the account that a mailed link would open; null for an invalid response or a person without access.
   * @throws Unavailable
   */
  async signIn(token: string | null, response: AuthenticationResponseJSON, browser: Browser): Promise<SignedIn | null> {
    const { clock, database, operators, people, sessions, store } = this.#dependencies
    const expected = await this.#end(token, null)
    const passkey = expected === null ? null : await store.find(response.id)
    if (expected === null || passkey === null || response.response.userHandle !== handleText(passkey.handle))
      return null
    const used = await this.#judged(() => verifyUse(response, expected, passkey), passkey)
    if (used === null) return null
    const target = (await people.accountOf(passkey.email)) ?? { personId: passkey.personId, merchantId: null }
    if (target.merchantId === null && !operators().includes(passkey.email)) return null
    return await database.transaction(async sql => {
      const now = clock.now()
      if (!(await people.enter(sql, target, now))) return null
      if (!(await store.used(sql, passkey.id, used.counter, used.isSynced, now))) return null
      return await sessions.open(sql, { kind: 'person', ...target, passkeyId: passkey.id }, browser)
    })
  }

  /** `token` binds the ceremony to the browser; only its digest is stored. */
  async #begin(personId: number | null): Promise<{ readonly token: Secret<string>; readonly expected: Expected }> {
    const { clock, random, store } = this.#dependencies
    if (!this.areAvailable)
      throw new LongError(
        PASSKEYS_IMPOSSIBLE,
        'No passkeys here',
        'Browsers make passkeys only for a host name over https, or for localhost. Sign in by mail.'
      )
    const token = randomToken(32, random)
    await store.begin(digestOf(token), personId, clock.now() + CEREMONY_LIFE)
    return { token: new Secret(token), expected: this.#expected(token) }
  }

  async #end(token: string | null, personId: number | null): Promise<Expected | null> {
    const { clock, store } = this.#dependencies
    if (token === null || !isSignInToken(token)) return null
    return (await store.take(digestOf(token), personId, clock.now())) ? this.#expected(token) : null
  }

  #expected(token: string): Expected {
    const { origin, hostname } = new URL(this.#dependencies.publicUrl())
    return { challenge: hash('sha256', `passkey ${token}`, 'base64url'), origin, rpId: hostname }
  }

  /** Logs a refused response and returns null. */
  async #judged<T>(verify: () => Promise<T>, passkey?: Pick<OwnedPasskey, 'id' | 'personId'>): Promise<T | null> {
    try {
      return await verify()
    } catch (error) {
      if (!(error instanceof PasskeyRefused)) throw error
      this.#dependencies.log.warn(
        { err: error, passkey: passkey?.id, person: passkey?.personId },
        'a passkey was refused'
      )
      return null
    }
  }
}

function handleText(uuid: string): string {
  return Buffer.from(uuid.replaceAll('-', ''), 'hex').toString('base64url')
}

function refused(message: string): LongError {
  return new LongError(PASSKEY_REFUSED, 'Passkey refused', message)
}

function passkeyMail(
  to: string,
  { id, name }: { readonly id: string; readonly name: string },
  publicUrl: string
): Mail {
  const where = oneLine(new URL(publicUrl).host)
  return {
    to,
    subject: shortSubject(`A passkey was added at ${where}`),
    text: [
      'Hello,',
      '',
      `The passkey "${oneLine(name)}" was added to your address at ${where}. It can be used to sign in as you.`,
      '',
      `If this was not you, sign in by email link at ${publicUrl}/sign-in and remove the passkey in the console's settings.`,
      ''
    ].join('\n'),
    html: null,
    id: `passkey.${id}`
  }
}
