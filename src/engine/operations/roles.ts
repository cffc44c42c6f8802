import { LongError } from './errors.ts'
import type { AnyOperation } from './operation.ts'

/** What somebody may do with an account, least first: each may also do what those before it may (decision 320). */
export const ROLES = Object.freeze(['viewer', 'editor', 'owner'] as const)
export type Role = (typeof ROLES)[number]

/** Whether somebody with the role `has` may do what `needed` is asked for. */
export function isRoleEnough(has: Role, needed: Role): boolean {
  return ROLES.indexOf(has) >= ROLES.indexOf(needed)
}

/** The role that an operation of merchants asks for: its own, or else viewer to read and editor to change. */
export function neededRole({ role, method }: Pick<AnyOperation, 'role' | 'method'>): Role {
  return role ?? (method === 'GET' ? 'viewer' : 'editor')
}

/** 403 for somebody whose role in the account is not enough. */
export class RoleRequired extends LongError {
  constructor(has: Role, needed: Role) {
    super(
      403,
      'Role required',
      `This needs the role ${needed} in the account; you are ${has}. Its owner can change that.`,
      { role: has, required_role: needed }
    )
  }
}
