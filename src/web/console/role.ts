import type { VNode } from 'preact'
import { isRoleEnough, type Role } from '../../engine/operations/roles.ts'
import { html } from '../kit/document.ts'
import type { PageRequest } from './page.ts'

/** Whether the member has at least this role. The operator needs none. */
export function may({ ctx: { principal } }: Pick<PageRequest, 'ctx'>, needed: Role): boolean {
  return principal?.kind !== 'merchant' || isRoleEnough(principal.role, needed)
}

/** Forms, or the role that they require. Cosmetic: the API enforces roles. */
export function forRole(asked: Pick<PageRequest, 'ctx'>, needed: Role, forms: VNode): VNode {
  return may(asked, needed) ? forms : html`<p class="soft">Changing this needs the role ${needed} in the account.</p>`
}
