import type { VNode } from 'preact'
import { isRoleEnough, type Role } from '../../engine/operations/roles.ts'
import { html } from '../kit/document.ts'
import type { Asked } from './page.ts'

/** Whether whoever is signed in has at least a role in the account. The operator has none and needs none. */
export function may({ ctx: { principal } }: Pick<Asked, 'ctx'>, needed: Role): boolean {
  return principal?.kind !== 'merchant' || isRoleEnough(principal.role, needed)
}

/** Forms and buttons, or what role they need in their place. The API refuses by itself; this only spares the attempt. */
export function forRole(asked: Pick<Asked, 'ctx'>, needed: Role, forms: VNode): VNode {
  return may(asked, needed) ? forms : html`<p class="soft">Changing this needs the role ${needed} in the account.</p>`
}
