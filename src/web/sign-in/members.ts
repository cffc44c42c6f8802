import type { Database, TransactionSql } from '../../platform/database/database.ts'
import { integer, moment, optional, records, text, type Records } from '../../platform/database/rows.ts'
import { ALREADY_EXISTS, CONFLICT, LIMIT_REACHED, RESOURCE_NOT_FOUND } from '../../engine/operations/error-kinds.ts'
import { RateLimited, ShortError } from '../../engine/operations/errors.ts'
import { type Role, ROLES, defineOperation, type AnyOperation } from '../../engine/operations/operation.ts'
import type { Merchant } from '../../accounts/merchants/schema.ts'
import type { Merchants } from '../../accounts/merchants/service.ts'
import type { Clock } from '../../platform/system/clock.ts'
import { rowId, type Random } from '../../platform/system/ids.ts'
import { LINK_LIFE } from './cookie.ts'
import type { SignIns } from './service.ts'
import type { SqlSignInStore } from './store.ts'
import { Type, type Static } from 'typebox'
import { iso, isoTime, isoTimeOrNull } from '../../engine/formats/iso-time.ts'
import { merchantOf } from '../../accounts/merchants/principal.ts'
import { emailAddress } from '../mail/mail.ts'
import type { Notices } from '../mail/notices.ts'

export interface MembersDependencies {
  readonly database: Database
  readonly clock: Clock
  readonly random: Random
  readonly people: Pick<SqlSignInStore, 'person' | 'invitations'>
  readonly merchants: Pick<Merchants, 'within'>
  readonly signIns: Pick<SignIns, 'mail'>
  readonly notices: Pick<Notices, 'queue'>
}

export interface AccountMember {
  readonly id: number
  readonly email: string
  readonly role: Role
  /** Creation of the account or the invitation. */
  readonly createdAt: number
  /** First sign-in to the account; null before. */
  readonly joinedAt: number | null
}

const MOST_MEMBERS = 100
/** Inviting and removing members must not make the gateway a mail relay. */
const INVITATIONS_A_DAY = 100
const DAY = 86_400_000

const memberRows: Records<AccountMember> = records({
  id: integer('person_id'),
  email: text(),
  role: text<Role>(),
  createdAt: moment(),
  joinedAt: optional(moment())
})

/**
 * Members of accounts. Changes lock the account, so that two owners cannot remove each other. A new role applies from
 * the next request; a removed member is signed out.
 */
export class Members {
  readonly #dependencies: MembersDependencies

  constructor(dependencies: MembersDependencies) {
    this.#dependencies = dependencies
  }

  /**
   * Owners first, each role by address.
   * @throws Unavailable
   */
  async list(merchantId: number): Promise<AccountMember[]> {
    return await memberRows.all(this.#dependencies.database.sql`
      select b.*, p.email from members b join people p on p.id = b.person_id where b.merchant_id = ${merchantId}
      order by array_position(array['owner', 'editor', 'viewer'], b.role), p.email`)
  }

  /**
   * Mails an invitation, again while it is unused.
   * @throws ShortError 409 for a member and for a full account; RateLimited for too many links to the address or mails
   * Unavailable
   */
  async invite(merchant: Pick<Merchant, 'id' | 'name'>, email: string, role: Role): Promise<AccountMember> {
    const { clock, database, notices, people, random, signIns } = this.#dependencies
    const now = clock.now()
    return await database.transaction(async sql => {
      await lock(sql, merchant.id)
      const person = await people.person(sql, email.trim().toLowerCase(), now)
      const former = await memberOf(sql, merchant.id, person.id)
      if (former !== null && former.joinedAt !== null)
        throw new ShortError(ALREADY_EXISTS, 'This address is a member already')
      // The account's own address is an owner even before its first sign-in.
      if (former?.role === 'owner' && role !== 'owner') await keepAnOwner(sql, merchant.id, person.id)
      if (former === null) {
        const [row] = await sql<{ count: number }[]>`
          select count(*)::int as count from members where merchant_id = ${merchant.id}`
        if ((row?.count ?? 0) >= MOST_MEMBERS) throw new ShortError(LIMIT_REACHED, 'An account has at most 100 members')
      }
      await sql`
        insert into members (merchant_id, person_id, role, created_at)
        values (${merchant.id}, ${person.id}, ${role}, ${new Date(now)})
        on conflict (merchant_id, person_id) do update set role = excluded.role, created_at = excluded.created_at`
      if ((await people.invitations(sql, merchant.id, now - DAY)) >= INVITATIONS_A_DAY)
        throw new RateLimited(DAY / 1000)
      const mailed = await signIns.mail(sql, {
        person,
        merchantId: merchant.id,
        name: merchant.name,
        requestId: `invitation-${rowId(now, random)}`,
        reason: 'invitation'
      })
      if (!mailed) throw new RateLimited(LINK_LIFE / 1000)
      if (former === null)
        await notices.queue(sql, merchant.id, 'member', [
          ['Member', person.email],
          ['Role', role]
        ])
      return { id: person.id, email: person.email, role, createdAt: now, joinedAt: null }
    })
  }

  /**
   * Gives a member another role; null removes the member or invitation with its sessions and links.
   * @throws ShortError 404 for an unknown member, 409 for the last owner; Unavailable
   */
  async change(merchantId: number, memberId: number, role: Role | null): Promise<AccountMember> {
    return await this.#dependencies.database.transaction(async sql => {
      await lock(sql, merchantId)
      const member = await memberOf(sql, merchantId, memberId)
      if (member === null) throw new ShortError(RESOURCE_NOT_FOUND, 'Member not found')
      if (member.role === 'owner' && role !== 'owner') await keepAnOwner(sql, merchantId, memberId)
      if (role === null) await sql`delete from members where merchant_id = ${merchantId} and person_id = ${memberId}`
      else await sql`update members set role = ${role} where merchant_id = ${merchantId} and person_id = ${memberId}`
      return { ...member, role: role ?? member.role }
    })
  }

  /**
   * Makes an owner's address the account's. Its mail is known to be read: the owner has signed in with a link.
   * @throws ShortError 409 for any other address and one of another account, Unavailable
   */
  async setEmail(merchantId: number, typed: string): Promise<string> {
    const { database, merchants } = this.#dependencies
    const email = typed.trim().toLowerCase()
    return await database.transaction(async sql => {
      await lock(sql, merchantId)
      const [owner] = await sql`
        select 1 from members b join people p on p.id = b.person_id
        where b.merchant_id = ${merchantId} and p.email = ${email} and b.role = 'owner'
          and b.joined_at is not null`
      if (owner === undefined)
        throw new ShortError(CONFLICT, 'Invite this address as an owner first. It can be used after its first sign-in.')
      await merchants.within(sql).change(merchantId, { email })
      return email
    })
  }
}

async function lock(sql: TransactionSql, merchantId: number): Promise<void> {
  await sql`select 1 from merchants where id = ${merchantId} for no key update`
}

async function memberOf(sql: TransactionSql, merchantId: number, personId: number): Promise<AccountMember | null> {
  return await memberRows.one(sql`
    select b.*, p.email from members b join people p on p.id = b.person_id
    where b.merchant_id = ${merchantId} and b.person_id = ${personId}`)
}

/**
 * Throws unless another owner has signed in once or reads the account's own mail: an unused invitation does not count.
 */
async function keepAnOwner(sql: TransactionSql, merchantId: number, without: number): Promise<void> {
  const [other] = await sql`
    select 1 from members b join people p on p.id = b.person_id join merchants m on m.id = b.merchant_id
    where b.merchant_id = ${merchantId} and b.role = 'owner' and b.person_id <> ${without}
      and (b.joined_at is not null or p.email = m.email) limit 1`
  if (other === undefined)
    throw new ShortError(CONFLICT, 'An account needs an owner. Make another member an owner first.')
}

const Role = Type.Enum([...ROLES], {
  description: 'viewer reads; editor also changes; owner also has the keys, the members and the plan.'
})

const MemberView = Type.Object(
  {
    memberId: Type.Integer(),
    email: Type.String(),
    role: Role,
    createdAt: isoTime('When the account was made, or the invitation.'),
    joinedAt: isoTimeOrNull('When the member first signed in; null for one who has not.')
  },
  { title: 'Member' }
)
export type MemberView = Static<typeof MemberView>

const Address = emailAddress({ 'x-audit': true })

const Invitation = Type.Object({ email: Address, role: Role }, { title: 'Invitation' })

const MemberId = Type.Object({ memberId: Type.String({ pattern: '^[1-9][0-9]{0,8}$' }) })
const missing = 'The account has no such member.'
const lastOwner = 'It would leave the account without an owner.'
const common = { tag: 'Merchant', access: 'merchant' } as const
const read = { use: 'merchant-api', chain: 'settings-read' } as const
const write = { use: 'merchant-api', chain: 'settings-write' } as const

export function memberOperations(members: Members): AnyOperation[] {
  return [
    defineOperation({
      ...common,
      id: 'listMembers',
      method: 'GET',
      path: '/api/merchant/members',
      mount: read,
      summary: 'Who may work in the account, and who is invited to',
      description: "The account's own address is an owner from the start, also before its first sign-in.",
      responses: { 200: { description: 'Owners first.', schema: Type.Array(MemberView) } },
      handle: async ({ ctx }) => ({ status: 200, body: (await members.list(merchantOf(ctx).id)).map(memberView) })
    }),
    defineOperation({
      ...common,
      id: 'inviteMember',
      liveOnly: true,
      role: 'owner',
      method: 'POST',
      path: '/api/merchant/members',
      mount: write,
      summary: 'Invite a member by mail',
      description:
        'The link in the mail works once, for three days; after that its reader asks for one at /sign-in. Who is invited and has not joined can be invited again, also with another role.',
      body: Invitation,
      responses: {
        201: { description: 'Invited; a link was mailed.', schema: MemberView },
        409: 'The address is a member already, or there are too many.'
      },
      handle: async ({ ctx, body }) => {
        const member = await members.invite(merchantOf(ctx), body.email, body.role)
        return { status: 201, body: memberView(member), headers: ['Location', `/api/merchant/members/${member.id}`] }
      }
    }),
    defineOperation({
      ...common,
      id: 'changeMember',
      role: 'owner',
      method: 'PUT',
      path: '/api/merchant/members/:memberId',
      mount: write,
      summary: 'Give a member another role',
      description: "It counts from the member's next request on. The last owner stays one.",
      params: MemberId,
      body: Type.Object({ role: Role }),
      responses: { 200: { description: 'The member as it is now.', schema: MemberView }, 404: missing, 409: lastOwner },
      handle: async ({ ctx, params, body }) => {
        const member = await members.change(merchantOf(ctx).id, Number(params.memberId), body.role)
        return { status: 200, body: memberView(member) }
      }
    }),
    defineOperation({
      ...common,
      id: 'setEmail',
      liveOnly: true,
      role: 'owner',
      method: 'PUT',
      path: '/api/merchant/email',
      mount: write,
      summary: 'Change the email address of the account',
      description:
        'To use a new address, invite it as an owner and sign in with it once. The previous address leaves the account, and all of its sessions end.',
      body: Type.Object({ email: Address }),
      responses: {
        200: { description: 'Saved.', schema: Type.Object({ email: Type.String() }) },
        409: 'The address is not of an owner who has signed in, or another account has it.'
      },
      handle: async ({ ctx, body }) => ({
        status: 200,
        body: { email: await members.setEmail(merchantOf(ctx).id, body.email) }
      })
    }),
    defineOperation({
      ...common,
      id: 'removeMember',
      role: 'owner',
      method: 'DELETE',
      path: '/api/merchant/members/:memberId',
      mount: write,
      summary: 'Remove a member, or take an invitation back',
      description: 'Sessions of the member in this account end immediately. The last owner cannot be removed.',
      params: MemberId,
      responses: { 204: { description: 'Removed, and signed out.' }, 404: missing, 409: lastOwner },
      handle: async ({ ctx, params }) => {
        await members.change(merchantOf(ctx).id, Number(params.memberId), null)
        return { status: 204, body: null }
      }
    })
  ]
}

function memberView({ id, email, role, createdAt, joinedAt }: AccountMember): Static<typeof MemberView> {
  return {
    memberId: id,
    email,
    role,
    createdAt: iso(createdAt),
    joinedAt: iso(joinedAt)
  }
}
