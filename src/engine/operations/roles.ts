import { LongError } from './errors.ts'
import type { AnyOperation } from './operation.ts'
import { defineError } from '../../platform/system/errors.ts'

export const ROLE_REQUIRED = defineError('BG_ROLE_REQUIRED', {
  status: 403,
  title: 'Role required',
  cause: 'The role of the signed-in person, or a read-only key, does not allow this.',
  fix: 'An owner of the account changes the role; `required_role` is the one needed.'
})

/** Each role includes the permissions of those before it. */
export const ROLES = Object.freeze(['viewer', 'editor', 'owner'] as const)
export type Role = (typeof ROLES)[number]

export function isRoleEnough(has: Role, needed: Role): boolean {
  return ROLES.indexOf(has) >= ROLES.indexOf(needed)
}

/** Default: viewer to read and editor to change. */
export function neededRole({ role, method }: Pick<AnyOperation, 'role' | 'method'>): Role {
  return role ?? (method === 'GET' ? 'viewer' : 'editor')
}

/**
 * Whether an id is of a test account, which has the negated id of its account. Its keys are sealed for that id, so only
 * the sandbox takes them.
 */
export function isTest(merchantId: number | string | null): boolean {
  return Number(merchantId) < 0
}

export class RoleRequired extends LongError {
  constructor(has: Role, needed: Role) {
    super(
      ROLE_REQUIRED,
      'Role required',
      `This needs the role ${needed} in the account; you are ${has}. Its owner can change that.`,
      { role: has, required_role: needed }
    )
  }
}
