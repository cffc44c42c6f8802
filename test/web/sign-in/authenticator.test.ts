import { createHash, generateKeyPairSync, randomBytes, sign } from 'node:crypto'
import { inspect } from 'node:util'
import t from 'tap'
import type { Log } from '../../../src/platform/telemetry/log.ts'
import { defaultYaml, startGateway, type Answer } from '../../support/gateway.ts'
import { mailedLinks } from './mails.ts'

const ORIGIN = 'https://gate.example.com'
const OPERATOR = 'operator@example.com'
/** What a browser says of a request that a page of this origin makes. */
const HERE = { 'sec-fetch-site': 'same-origin' }

/** An authenticator with one key, which verifies its user and asks for no finger. */
class Authenticator {
  readonly id = randomBytes(16).toString('base64url')
  counter = 0
  readonly #key = generateKeyPairSync('ec', { namedCurve: 'P-256' })

  create(challenge: string): object {
    const { x = '', y = '' } = this.#key.publicKey.export({ format: 'jwk' })
    const hex = (text: string) => Buffer.from(text, 'base64url').toString('hex')
    // COSE_Key: EC2, ES256, P-256 (RFC 9053, 7.1.1).
    const key = `a5010203262001215820${hex(x)}225820${hex(y)}`
    const data = `${this.#data(0x5d)}${'00'.repeat(16)}0010${hex(this.id)}${key}`
    // CBOR: { fmt: 'none', attStmt: {}, authData }.
    const object = `a363666d74646e6f6e656761747453746d74a068617574684461746158${(data.length / 2).toString(16)}${data}`
    return this.#credential({
      clientDataJSON: clientData('webauthn.create', challenge).toString('base64url'),
      attestationObject: Buffer.from(object, 'hex').toString('base64url')
    })
  }

  use(challenge: string, userHandle: string): object {
    const client = clientData('webauthn.get', challenge)
    const data = Buffer.from(this.#data(0x1d), 'hex')
    const signed = Buffer.concat([data, createHash('sha256').update(client).digest()])
    return this.#credential({
      clientDataJSON: client.toString('base64url'),
      authenticatorData: data.toString('base64url'),
      signature: sign('sha256', signed, this.#key.privateKey).toString('base64url'),
      userHandle
    })
  }

  #data(flags: number): string {
    const host = createHash('sha256').update(new URL(ORIGIN).hostname).digest('hex')
    return `${host}${flags.toString(16)}${(++this.counter).toString(16).padStart(8, '0')}`
  }

  #credential(response: object): object {
    return { id: this.id, rawId: this.id, type: 'public-key', response }
  }
}

function clientData(type: string, challenge: string) {
  return Buffer.from(JSON.stringify({ type, challenge, origin: ORIGIN, crossOrigin: false }))
}

function cookieOf(answer: Answer) {
  return ([answer.headers['set-cookie'] ?? []].flat()[0] ?? '').split(';', 1)[0] ?? ''
}

t.test('passkeys and sessions by HTTP, with an authenticator in software', async t => {
  const lines: string[] = []
  const write = (fields: object | string, message?: string) => void lines.push(inspect([fields, message]))
  const log: Log = { debug: write, info: write, warn: write, error: write }
  const yaml = `${defaultYaml()}\noperators: [${OPERATOR}]\n`
  const gateway = await startGateway(t, { yaml, env: { PUBLIC_URL: ORIGIN }, log })
  const byMail = async (email: string) => {
    await gateway.send('POST', '/api/auth/magic-link', { body: { email } })
    const [link = ''] = await mailedLinks(gateway.data, email, 1)
    return cookieOf(await gateway.send('POST', new URL(link).pathname))
  }
  const send = (cookie: string, method: string, path: string, body?: object, headers: object = HERE) =>
    gateway.send(method, path, { headers: { cookie, ...headers }, ...(body === undefined ? {} : { body }) })
  const begin = async (cookie: string, path: string) => {
    const answer = await send(cookie, 'POST', path)
    return {
      options: answer.json() as { challenge: string; user?: { id: string } },
      cookie: [cookie, cookieOf(answer)].filter(Boolean).join('; ')
    }
  }
  const signIn = '/api/auth/passkeys/sign-in'
  const add = async (session: string, authenticator: Authenticator) => {
    const { options, cookie } = await begin(session, '/api/auth/passkeys/options')
    const body = { name: 'Phone', credential: authenticator.create(options.challenge) }
    const made = await send(cookie, 'POST', '/api/auth/passkeys', body)
    t.match(made, { status: 201 })
    t.match(cookieOf(made), /boltgate-passkey=$/, 'the ceremony is over')
    return { handle: options.user?.id ?? '', passkeyId: (made.json() as { passkeyId: string }).passkeyId }
  }
  const use = async (authenticator: Authenticator, handle: string) => {
    const { options, cookie } = await begin('', `${signIn}/options`)
    return await send(cookie, 'POST', signIn, authenticator.use(options.challenge, handle))
  }
  const { merchant } = gateway
  const owner = (await gateway.merchantSend('GET', '/api/merchant/me')).json() as { email: string }
  const member = await byMail(owner.email)
  const operatorCookie = await byMail(OPERATOR)

  await t.test('sessions: one of an account and one of an operator', async t => {
    t.match((await send(member, 'GET', '/api/auth/session')).json(), { merchantId: merchant.id, role: 'owner' })
    const operator = await send(operatorCookie, 'GET', '/api/auth/session')
    t.match(operator.json(), { merchantId: null, subscriptionStatus: null, role: null, isOperator: true })
    t.match((await send(member, 'GET', '/api/auth/sessions')).json(), [{ isCurrent: true }])
    t.equal((await send(member, 'DELETE', '/api/auth/sessions/another')).status, 404)
    t.equal((await send(member, 'DELETE', '/api/auth/sessions/another', undefined, {})).status, 403)
    t.match((await gateway.merchantSend('GET', '/api/merchant/members')).json(), [{ email: owner.email }])
  })

  const authenticator = new Authenticator()
  let handle = ''
  let passkeyId = ''
  await t.test('passkeys: a response for another challenge is refused and logged, the right one is added', async t => {
    const path = '/api/auth/passkeys'
    const wrong = await begin(member, `${path}/options`)
    const credential = authenticator.create('of-another-ceremony')
    t.equal((await send(wrong.cookie, 'POST', path, { name: 'Phone', credential })).status, 400)
    t.match(
      lines.find(line => line.includes('a passkey was refused')),
      /the response is no proof/
    )
    const added = await add(member, authenticator)
    handle = added.handle
    passkeyId = added.passkeyId
    t.match((await send(member, 'GET', path)).json(), { passkeys: [{ name: 'Phone', isCurrent: false, usedAt: null }] })
  })

  await t.test('passkeys: one signs in, counts its uses, and is removed with its session', async t => {
    const used = await use(authenticator, handle)
    t.match(used, { status: 200 })
    t.match(await gateway.database.sql`select counter::int, is_synced from passkeys`, [
      { counter: authenticator.counter, is_synced: true }
    ])
    const session = cookieOf(used)
    t.match((await send(session, 'GET', '/api/auth/passkeys')).json(), { passkeys: [{ isCurrent: true }] })
    t.equal((await send(member, 'DELETE', '/api/auth/passkeys/another')).status, 404)
    t.equal((await send(member, 'DELETE', `/api/auth/passkeys/${passkeyId}`)).status, 204)
    t.equal((await send(session, 'GET', '/api/auth/session')).status, 401)
    t.equal((await use(authenticator, handle)).status, 401)
  })

  await t.test('passkeys: an operator without an account signs in with one', async t => {
    const own = new Authenticator()
    const { handle } = await add(operatorCookie, own)
    t.match((await use(own, handle)).json(), { page: 'operator' })
    const sessions = (await send(operatorCookie, 'GET', '/api/auth/sessions')).json() as Array<{ sessionId: string }>
    t.match(sessions, [{ isCurrent: false }, { isCurrent: true }])
    t.equal((await send(operatorCookie, 'DELETE', `/api/auth/sessions/${sessions[0]?.sessionId}`)).status, 204)
  })
})
