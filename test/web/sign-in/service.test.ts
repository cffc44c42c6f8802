import { hash } from 'node:crypto'
import tap, { type Test as T } from 'tap'
import { Merchants } from '../../../src/accounts/merchants/service.ts'
import { MerchantStore } from '../../../src/accounts/merchants/store.ts'
import type { Merchant } from '../../../src/accounts/merchants/schema.ts'
import { systemRandom } from '../../../src/platform/system/ids.ts'
import type { JsonObject } from '../../../src/platform/jobs/jobs.ts'
import { Unavailable } from '../../../src/engine/operations/errors.ts'
import { silentLog } from '../../../src/platform/telemetry/log.ts'
import type { Mail } from '../../../src/web/mail/mail.ts'
import { KeyRing, Sealer, Secret } from '../../../src/platform/keys/secrets.ts'
import { INVITATION_LIFE, LINK_LIFE, SESSION_LIFE } from '../../../src/web/sign-in/cookie.ts'
import { AdminKey } from '../../../src/accounts/merchants/admin-key.ts'
import { SqlSessionStore, SqlSignInStore } from '../../../src/web/sign-in/store.ts'
import { NO_BROWSER, Sessions } from '../../../src/web/sign-in/sessions.ts'
import { SignIns } from '../../../src/web/sign-in/service.ts'
import { openAnyDatabase } from '../../support/database.ts'
import { ManualClock } from '../../support/manual-clock.ts'

const t = tap
const database = openAnyDatabase(tap)
let accounts = 0

async function fixture() {
  const db = await database
  const clock = new ManualClock()
  const sealer = new Sealer(new KeyRing(new Secret('a master secret of 32 bytes or more')))
  const merchants = new Merchants({
    store: new MerchantStore(db),
    sealer,
    clock,
    plans: () => {
      throw new Error('plans are not asked for')
    }
  })
  const mails: Mail[] = []
  const queued: JsonObject[] = []
  const fault: { mail: Error | null } = { mail: null }
  const store = new SqlSignInStore(db)
  const operators: string[] = []
  const adminKey = new AdminKey(new Secret('the admin key of this test'))
  const parts = {
    store: new SqlSessionStore(db),
    database: db,
    merchants,
    adminKey,
    clock,
    random: systemRandom,
    publicUrl: () => 'https://gate.example.com',
    operators: () => operators
  }
  const sessions = new Sessions(parts)
  const signIns = new SignIns({
    store,
    sessions,
    operators: () => operators,
    database: db,
    merchants,
    sealer,
    clock,
    random: systemRandom,
    log: silentLog,
    publicUrl: () => 'https://gate.example.com',
    outbox: {
      queue: async (_sql, mail) => {
        if (fault.mail !== null) throw fault.mail
        mails.push(mail)
      }
    },
    jobs: {
      enqueue: async (_sql, _name, data) => {
        queued.push(data)
      }
    }
  })
  // The one queue of the service.
  const links = signIns.jobs.find(job => job.every === null)
  /** Runs every job that is queued; `keep` leaves it there, as when its process is killed. */
  const work = async (keep = false) => {
    for (const data of keep ? queued : queued.splice(0))
      await links?.run({ id: 'job', data }, new AbortController().signal)
  }
  const tokenOf = (mail: Mail | undefined) => /\/sign-in\/([A-Za-z0-9_-]{43})\n/.exec(mail?.text ?? '')?.[1] ?? 'none'
  return {
    clock,
    merchants,
    operators,
    parts,
    sessions,
    mails,
    queued,
    signIns,
    work,
    tokenOf,
    fault,
    store,
    db,
    account: async () =>
      (await merchants.create({ name: 'Acme\r\nX: y', email: `signer-${++accounts}@example.com` })).merchant,
    link: async (merchant: Merchant) => {
      await signIns.request(merchant.email)
      await work()
      return tokenOf(mails.at(-1))
    }
  }
}

async function mustSignIn(t: T, signIns: SignIns, token: string) {
  const signedIn = await signIns.signIn(token)
  if (signedIn === null) throw new Error('the link does not work')
  t.match(signedIn.token.reveal(), /^[A-Za-z0-9_-]{43}$/, '32 random bytes')
  return signedIn.token.reveal()
}

t.test(
  'decision 170: a request does the same whether or not an account has the address; only the account is mailed',
  async t => {
    const { account, signIns, queued, work, mails, merchants } = await fixture()
    const merchant = await account()
    const inactive = await account()
    await merchants.deactivate(inactive.id)
    for (const email of [merchant.email.toUpperCase(), 'nobody@example.com', inactive.email])
      await signIns.request(email)
    t.same(
      queued.map(job => Object.keys(job)),
      [
        ['id', 'sealed'],
        ['id', 'sealed'],
        ['id', 'sealed']
      ],
      'one job each, for every address'
    )
    t.notMatch(JSON.stringify(queued), /example\.com/, 'operators see no address at /jobs')
    await work()
    t.same(
      mails.map(mail => mail.to),
      [merchant.email]
    )
    t.match(
      mails[0]?.text,
      /^Hello Acme X: y,\n[^]*https:\/\/gate\.example\.com\/sign-in\/[A-Za-z0-9_-]{43}\n[^]*15 minutes/
    )
  }
)

t.test('decision 170: a link works once, also when it is used many times concurrently', async t => {
  const { account, link, signIns } = await fixture()
  const token = await link(await account())
  for (let look = 0; look < 3; look++) t.equal(await signIns.isGood(token), true, 'looking does not use it up')
  const outcomes = await Promise.all(Array.from({ length: 20 }, () => signIns.signIn(token)))
  t.equal(outcomes.filter(outcome => outcome !== null).length, 1)
  t.equal(await signIns.isGood(token), false)
})

t.test('decision 170: a link works for 15 minutes, that of an invitation for three days', async t => {
  const { account, link, signIns, clock, db, store, mails, tokenOf } = await fixture()
  const merchant = await account()
  const { personId = 0 } = (await store.accountOf(merchant.email)) ?? {}
  await db.transaction(sql =>
    signIns.mail(sql, {
      person: { id: personId, email: merchant.email },
      merchantId: merchant.id,
      name: merchant.name,
      requestId: 'invitation',
      reason: 'invitation'
    })
  )
  const invitation = tokenOf(mails.at(-1))
  const [early, late] = [await link(merchant), await link(merchant)]
  clock.advance(LINK_LIFE - 1)
  await mustSignIn(t, signIns, early)
  clock.advance(1)
  t.equal(await signIns.isGood(late), false)
  t.equal(await signIns.signIn(late), null)
  clock.advance(INVITATION_LIFE - LINK_LIFE - 1)
  t.equal(await signIns.isGood(invitation), true)
  clock.advance(1)
  t.equal(await signIns.isGood(invitation), false)
})

t.test('only digests of links and sessions are stored', async t => {
  const { account, link, signIns, db } = await fixture()
  const merchant = await account()
  const token = await link(merchant)
  const session = await mustSignIn(t, signIns, token)
  const links = await db.sql<{ digest: Buffer }[]>`select digest from sign_in_links where merchant_id = ${merchant.id}`
  const sessions = await db.sql<
    { digest: Buffer }[]
  >`select digest from sign_in_sessions where merchant_id = ${merchant.id}`
  t.same(
    links.map(row => row.digest),
    [hash('sha256', token, 'buffer')]
  )
  t.same(
    sessions.map(row => row.digest),
    [hash('sha256', session, 'buffer')]
  )
})

t.test('a session lasts 12 hours, and ends with signing out', async t => {
  const { account, link, signIns, sessions, clock } = await fixture()
  const merchant = await account()
  const [one, two] = [
    await mustSignIn(t, signIns, await link(merchant)),
    await mustSignIn(t, signIns, await link(merchant))
  ]
  t.match(await sessions.current(one), {
    account: { merchant: { id: merchant.id }, role: 'owner', by: { kind: 'member', email: merchant.email } },
    operator: null,
    expiresAt: clock.now() + SESSION_LIFE
  })
  await sessions.end(one)
  t.equal(await sessions.current(one), null)
  clock.advance(SESSION_LIFE - 1)
  t.ok(await sessions.current(two), 'the other device is still signed in')
  clock.advance(1)
  t.equal(await sessions.current(two), null)
  for (const token of ['', 'x', 'A'.repeat(43), null]) t.equal(await sessions.current(token), null)
})

t.test('the admin key signs in without the database, and not past a defect', async t => {
  const { parts, db } = await fixture()
  const open = async (fault: Error) =>
    await new Sessions({ ...parts, database: { ...db, transaction: () => Promise.reject(fault) } }).openWithKey(
      'the admin key of this test',
      NO_BROWSER
    )
  t.match(await open(new Unavailable('Service unavailable', 'The database is down.', 5)), { isImpersonated: true })
  await t.rejects(open(new TypeError('a defect')), { message: 'a defect' })
})

t.test("a deactivated account's session and links end permanently, however it was deactivated", async t => {
  const { account, link, signIns, sessions, merchants, db } = await fixture()
  for (const deactivate of [
    (id: number) => merchants.deactivate(id),
    (id: number) => db.sql`update merchants set is_active = false where id = ${id}`
  ]) {
    const merchant = await account()
    const session = await mustSignIn(t, signIns, await link(merchant))
    const open = await link(merchant)
    await deactivate(merchant.id)
    t.equal(await sessions.current(session), null)
    t.equal(await signIns.isGood(open), false)
    await merchants.reactivate(merchant.id)
    t.equal(await sessions.current(session), null, 'it does not come back')
    t.equal(await signIns.signIn(open), null)
  }
})

t.test('an account that is given another address is signed out, and links that went to the old one end', async t => {
  const { account, link, signIns, sessions, merchants } = await fixture()
  const merchant = await account()
  const session = await mustSignIn(t, signIns, await link(merchant))
  const open = await link(merchant)
  await merchants.change(merchant.id, { name: 'Another name', email: merchant.email })
  t.ok(await sessions.current(session), 'another name ends nothing')
  await merchants.change(merchant.id, { email: `new-${merchant.email}` })
  t.equal(await sessions.current(session), null)
  t.equal(await signIns.isGood(open), false)
  t.equal(await signIns.signIn(open), null, 'access to the old mailbox gives no access any more')
})

t.test('a job that runs twice mails once, and one whose mail could not be queued leaves no link behind', async t => {
  const { account, signIns, work, mails, fault, db } = await fixture()
  const merchant = await account()
  await signIns.request(merchant.email)
  fault.mail = new Error('the queue is down')
  await t.rejects(work(true))
  t.same([...(await db.sql`select 1 from sign_in_links where merchant_id = ${merchant.id}`)], [])
  fault.mail = null
  await work(true)
  await work()
  t.equal(mails.length, 1)
})

t.test('one account is mailed five links in 15 minutes, from any addresses', async t => {
  const { account, signIns, work, mails, clock } = await fixture()
  const [flooded, other] = [await account(), await account()]
  for (let count = 0; count < 8; count++) await signIns.request(flooded.email)
  await signIns.request(other.email)
  await work()
  t.equal(mails.filter(mail => mail.to === flooded.email).length, 5)
  t.equal(mails.filter(mail => mail.to === other.email).length, 1)
  clock.advance(LINK_LIFE)
  await signIns.request(flooded.email)
  await work()
  t.equal(mails.filter(mail => mail.to === flooded.email).length, 6)
})

t.test('the purge deletes expired rows, and nothing else', async t => {
  const { account, link, signIns, sessions: opened, clock, db } = await fixture()
  const merchant = await account()
  await mustSignIn(t, signIns, await link(merchant))
  clock.advance(SESSION_LIFE + LINK_LIFE + 1)
  const kept = await link(merchant)
  const session = await mustSignIn(t, signIns, await link(merchant))
  clock.advance(1)
  const purge = signIns.jobs.find(job => job.every !== null)
  await purge?.run({ id: 'job', data: {} }, new AbortController().signal)
  const [{ links, sessions } = { links: 0, sessions: 0 }] = await db.sql<{ links: number; sessions: number }[]>`
    select (select count(*)::int from sign_in_links where merchant_id = ${merchant.id}) as links, (select count(*)::int from sign_in_sessions where merchant_id = ${merchant.id}) as sessions`
  t.same([links, sessions], [2, 1])
  t.ok(await signIns.isGood(kept))
  t.ok(await opened.current(session))
})
