import type { Database, TransactionSql } from '../../platform/database/database.ts'
import { integer, moment, optional, records, text, type Records } from '../../platform/database/rows.ts'
import { ALREADY_EXISTS, CONFLICT, LIMIT_REACHED } from '../../engine/operations/error-kinds.ts'
import { RateLimited, ShortError } from '../../engine/operations/errors.ts'
import type { Role } from '../../engine/operations/roles.ts'
import type { Merchant } from '../../accounts/merchants/schema.ts'
import type { Clock } from '../../platform/system/clock.ts'
import { rowId, type Random } from '../../platform/system/ids.ts'
import { LINK_LIFE } from './tokens.ts'
import type { SignIns } from './service.ts'
import type { SqlSignInStore } from './store.ts'

export interface MembersDependencies {
  readonly database: Database
  readonly clock: Clock
  readonly random: Random
  readonly people: Pick<SqlSignInStore, 'person' | 'invitations'>
  readonly signIns: Pick<SignIns, 'mail'>
  /** Reports a new invitation, in its transaction. */
  readonly invited?: (sql: TransactionSql, merchantId: number, email: string, role: Role) => Promise<void>
}

/** Times in milliseconds since the epoch. */
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
    const { clock, database, invited, people, random, signIns } = this.#dependencies
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
      if (former === null) await invited?.(sql, merchant.id, person.email, role)
      return { id: person.id, email: person.email, role, createdAt: now, joinedAt: null }
    })
  }

  /**
   * Null for an unknown member.
   * @throws ShortError 409 for the last owner, Unavailable
   */
  async setRole(merchantId: number, memberId: number, role: Role): Promise<AccountMember | null> {
    return await this.#dependencies.database.transaction(async sql => {
      await lock(sql, merchantId)
      const member = await memberOf(sql, merchantId, memberId)
      if (member === null) return null
      if (member.role === 'owner' && role !== 'owner') await keepAnOwner(sql, merchantId, memberId)
      await sql`update members set role = ${role} where merchant_id = ${merchantId} and person_id = ${memberId}`
      return { ...member, role }
    })
  }

  /**
   * Removes a member or invitation with its sessions and links; false for an unknown one.
   * @throws ShortError 409 for the last owner, Unavailable
   */
  async remove(merchantId: number, memberId: number): Promise<boolean> {
    return await this.#dependencies.database.transaction(async sql => {
      await lock(sql, merchantId)
      const member = await memberOf(sql, merchantId, memberId)
      if (member === null) return false
      if (member.role === 'owner') await keepAnOwner(sql, merchantId, memberId)
      await sql`delete from members where merchant_id = ${merchantId} and person_id = ${memberId}`
      return true
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
