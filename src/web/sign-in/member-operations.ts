import { Type, type Static } from 'typebox'
import { RESOURCE_NOT_FOUND } from '../../engine/operations/error-kinds.ts'
import { ShortError } from '../../engine/operations/errors.ts'
import { isoTime, isoTimeOrNull } from '../../engine/formats/iso-time.ts'
import { defineOperation, type AnyOperation } from '../../engine/operations/operation.ts'
import { ROLES } from '../../engine/operations/roles.ts'
import { merchantOf } from '../../accounts/merchants/principal.ts'
import type { AccountMember, Members } from './members.ts'
import { ADDRESS } from '../mail/mail.ts'

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

const Invitation = Type.Object(
  {
    email: Type.String({
      minLength: 3,
      maxLength: 254,
      'x-audit': true,
      pattern: ADDRESS.source,
      'x-email': true,
      'x-rule': 'Must be an email address, such as name@example.com.'
    }),
    role: Role
  },
  { title: 'Invitation' }
)

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
        const member = await members.setRole(merchantOf(ctx).id, Number(params.memberId), body.role)
        if (member === null) throw notFound()
        return { status: 200, body: memberView(member) }
      }
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
        if (!(await members.remove(merchantOf(ctx).id, Number(params.memberId)))) throw notFound()
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
    createdAt: new Date(createdAt).toISOString(),
    joinedAt: joinedAt === null ? null : new Date(joinedAt).toISOString()
  }
}

function notFound(): ShortError {
  return new ShortError(RESOURCE_NOT_FOUND, 'Member not found')
}
