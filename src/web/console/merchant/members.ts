import { t } from '../../../engine/formats/language.ts'
import type { MemberView } from '../../sign-in/members.ts'
import { html } from '../../kit/document.ts'
import { expectUnchanged } from '../api.ts'
import type { ConsolePage } from '../page.ts'
import { action, danger, fieldsOf, table, input } from '../parts.ts'
import { forRole, timeOf } from '../words.ts'

const ROLES = [
  ['viewer', t('viewer: reads')],
  ['editor', t('editor: can also make changes and send refunds to any invoice')],
  ['owner', t('owner: can also manage keys, members and the plan')]
] as const

const MEMBERS = '/api/merchant/members'

export const membersPage: ConsolePage = {
  id: 'getConsoleMembers',
  path: 'members',
  summary: 'Who may work in the account, and who is invited to',
  async show(request) {
    const { api, form } = request
    const field = fieldsOf(request, 'invite')
    const members = await api.get<readonly MemberView[]>(MEMBERS)
    return {
      title: 'Members',
      content: html`
        ${table(
          'Members',
          [
            ['Address', member => html`<bdi>${member.email}</bdi>`],
            ['Role', member => t(member.role)],
            ['Since', member => timeOf(member.createdAt)],
            ['Joined', member => (member.joinedAt === null ? t('not yet') : timeOf(member.joinedAt))]
          ],
          members,
          html`<p>No members yet. Invite people by email; they sign in without your key.</p>`
        )}
        ${forRole(
          request,
          'owner',
          html`
            <section aria-labelledby="invite"><h2 id="invite">Invite member</h2>
              <form method="post" class="form">
                <input type="hidden" name="do" value="invite" />
                ${field('email', 'Email', { hint: 'They get an email with a link that works once, for three days.', type: 'email', required: true, maxlength: 254 })}
                ${input('role', 'Role', { options: ROLES, value: form.get('role') })}
                <button class="button" type="submit">Invite</button>
              </form>
            </section>
            <section aria-labelledby="change"><h2 id="change">Change</h2>${members.map(changeOf)}</section>`
        )}`
    }
  },
  async act({ api, form }) {
    const memberId = form.text('memberId')
    const target = `${MEMBERS}/${encodeURIComponent(memberId)}`
    if (form.get('do') === 'invite') {
      await api.post(MEMBERS, { email: form.text('email'), role: form.text('role') })
      return { to: 'members', done: 'sent' }
    }
    if (form.get('do') === 'remove') {
      await api.delete(target)
      return { to: 'members', done: 'removed' }
    }
    const members = await api.get<readonly MemberView[]>(MEMBERS)
    expectUnchanged(form, members.find(member => String(member.memberId) === memberId)?.role ?? '')
    await api.put(target, { role: form.text('role') })
    return { to: 'members', done: 'saved' }
  }
}

function changeOf({ memberId, email, role }: MemberView) {
  const member = String(memberId)
  return html`
    <form method="post" class="filter">
      <input type="hidden" name="do" value="role" /><input type="hidden" name="memberId" value=${member} /><input type="hidden" name="was" value=${role} />
      ${input('role', html`Role of <bdi>${email}</bdi>`, { options: ROLES, value: role, id: `role-${memberId}` })}
      <button class="button small second" type="submit">Save<span class="unseen"> the role of ${email}</span></button>
    </form>
    ${danger(t`Remove ${email}`, 'They are signed out immediately and lose access to the account.', action('Remove', { do: 'remove', memberId: member }, { isDanger: true, what: email }))}`
}
