import type { CustomerView } from '../../../payments/payments/listing.ts'
import { html } from '../../kit/document.ts'
import { queryOf } from '../api.ts'
import type { ConsolePage } from '../page.ts'
import { field, offsetOf, offsetPager, ROWS, table } from '../parts.ts'
import { valued } from '../totals.ts'
import { count, timeOf } from '../words.ts'

export const customersPage: ConsolePage = {
  id: 'getConsoleCustomers',
  console: 'merchant',
  path: 'customers',
  summary: 'Customers, with what they paid',
  async show(asked) {
    const { api, link, query } = asked
    const text = query.get('text')
    const offset = offsetOf(query)
    const read = await api.get<readonly CustomerView[]>(
      `/api/merchant/customers${queryOf({ text, skip: offset, take: ROWS + 1 })}`
    )
    const value = await valued(
      asked,
      read.map(({ sats }) => sats)
    )
    return {
      title: 'Customers',
      content: html`
        <form method="get" class="filter" role="search" aria-label="Customers">
          ${field({ name: 'text', label: 'Name or email', value: text ?? '', attributes: { type: 'search', maxlength: 200 } })}
          <button class="button small" type="submit">Show</button>
        </form>
        ${table(
          'Customers',
          [
            {
              title: 'Customer',
              cell: ({ email, name }: CustomerView) =>
                html`<a href=${link(`payments${queryOf({ text: email ?? name })}`)}><bdi>${name ?? email}</bdi></a>`
            },
            { title: 'Email', cell: ({ email }) => html`<bdi>${email ?? '–'}</bdi>` },
            { title: 'Last payment', cell: ({ lastAt }) => timeOf(lastAt) },
            { title: 'Payments', cell: ({ payments }) => count(payments), isNumber: true },
            { title: 'Received', cell: ({ sats }) => value(sats), isNumber: true }
          ],
          read.slice(0, ROWS),
          text
            ? html`<p>No customers match this filter. <a href=${link('customers')}>Show all</a></p>`
            : html`<p>No payments with a customer's name or email yet. <a href=${link('till')}>Take a payment</a></p>`
        )}
        ${offsetPager(at => link(`customers${queryOf({ text, offset: at })}`), offset, read.length > ROWS)}`
    }
  }
}
