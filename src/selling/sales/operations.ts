import { nullableInteger, nullableText } from '../../engine/formats/text-patterns.ts'
import { Type, type Static, type TSchema } from 'typebox'
import { CSV, memberColumns, csvHeaders, csvStream, type CsvColumns } from '../../engine/formats/csv.ts'
import { isoTime, isoTimeQuery, iso } from '../../engine/formats/iso-time.ts'
import {
  keysetQuery,
  ListTotal,
  nextPage,
  periodOf,
  sumQuery,
  listed,
  listingHeaders,
  wantsCsv
} from '../../engine/operations/keyset.ts'
import { defineOperation, type AnyOperation, type Result } from '../../engine/operations/operation.ts'
import type { Context } from '../../engine/message/context.ts'
import { invalidField } from '../../engine/operations/field-errors.ts'
import { adminOperation, merchantOf, settingsRead } from '../../accounts/merchants/principal.ts'
import type { Clock } from '../../platform/system/clock.ts'
import type { Earned, Earnings } from './earnings.ts'
import type { Margins } from './margins.ts'
import { stepsOf } from './steps.ts'
import { SALE_SOURCES, SALE_STATES, type SoldChallenge, type SalesOwner, type SaleStore } from './store.ts'

interface SalesOperationDependencies {
  readonly store: SaleStore
  readonly earnings: Earnings
  readonly margins: Margins
  readonly clock: Clock
}

const SCHEMES = ['l402', 'payment', 'payment-legacy', 'x402'] as const

const SaleQuery = Type.Object({
  source: Type.Optional(Type.Enum([...SALE_SOURCES])),
  scheme: Type.Optional(Type.Enum([...SCHEMES])),
  state: Type.Optional(Type.Enum([...SALE_STATES])),
  proxyId: Type.Optional(Type.String({ maxLength: 64 })),
  text: Type.Optional(
    Type.String({
      maxLength: 200,
      description: 'Searches the resource and the description, case-insensitive; or equals the payment hash.'
    })
  ),
  ...keysetQuery,
  ...sumQuery
})
type SaleQuery = Static<typeof SaleQuery>

const whoseSales = {
  merchantId: Type.Optional(
    Type.Integer({ minimum: 1, maximum: 0x7fff_ffff, description: 'Of one merchant; all there are unless said.' })
  ),
  own: Type.Optional(Type.Boolean({ description: "true: of the gateway's own routes alone." }))
}
const AdminSaleQuery = Type.Object({ ...SaleQuery.properties, ...whoseSales })

const SaleView = Type.Object(
  {
    soldAt: isoTime('When it was first known to be paid.'),
    source: Type.Enum([...SALE_SOURCES], {
      description:
        'What was sold; bundle and session are balances that were bought of a route or a proxy; test is one of `boltgate pay --test`, which earnings leave out.'
    }),
    resource: Type.String({ description: 'Path that the token is valid for, or the resource that a producer named.' }),
    description: Type.String({ description: 'As on the invoice.' }),
    proxyId: nullableText('Null for what no proxy sold.'),
    scheme: nullableText('l402, payment, payment-legacy or x402; null while no credential was shown here.'),
    sats: Type.Integer(),
    price: nullableText('What was asked where that was no bitcoin, such as USD 0.002.'),
    state: Type.Enum([...SALE_STATES], {
      description:
        'settled: paid at the provider, credential not used yet. paid: valid for more requests. leased: a request with it is in flight. spent: used up.'
    }),
    isRevoked: Type.Boolean(),
    orderNumber: nullableText("Number of a store's order in its shop; null before it is made there, and for all else."),
    orderStatus: nullableText("Status of a store's order; null for all else."),
    paymentHash: Type.String()
  },
  { title: 'Sale' }
)
export type SaleView = Static<typeof SaleView>

const pageOf = <Item extends TSchema>(item: Item, title: string) =>
  Type.Object({ sales: Type.Array(item), next: nextPage, total: Type.Optional(ListTotal) }, { title })
const SalePage = pageOf(SaleView, 'SalePage')
export type SalePage = Static<typeof SalePage>
const AdminSale = Type.Object(
  { merchantId: nullableInteger("Null for the gateway's own routes."), ...SaleView.properties },
  { title: 'AdminSale' }
)

const earningsQuery = {
  format: keysetQuery.format,
  by: Type.Optional(Type.Enum(['hour', 'day', 'month'], { description: 'day unless said; in UTC.' })),
  from: Type.Optional(
    isoTimeQuery('ISO 8601; the whole step that it is in. Without it 48 hours, 30 days or 12 months before `to`.')
  ),
  to: Type.Optional(isoTimeQuery('ISO 8601; the step before it is the last. Now unless said.'))
}
const EarningsQuery = Type.Object({
  ...earningsQuery,
  of: Type.Optional(Type.Enum(['source', 'proxy', 'endpoint', 'scheme'], { description: 'source unless said.' })),
  proxyId: Type.Optional(
    Type.String({
      maxLength: 64,
      description: 'Of one proxy alone, with of=proxy: also of one that is not among the 20.'
    })
  )
})
const AdminEarningsQuery = Type.Object({
  ...earningsQuery,
  of: Type.Optional(
    Type.Enum(['source', 'proxy', 'endpoint', 'scheme', 'merchant'], {
      description: 'source unless said. merchant over all of them, endpoint of one or the gateway itself.'
    })
  ),
  ...whoseSales
})
type EarningsQuery = Static<typeof AdminEarningsQuery> & Pick<Static<typeof EarningsQuery>, 'proxyId'>

const EarningsView = Type.Object(
  {
    by: Type.Enum(['hour', 'day', 'month']),
    of: Type.String(),
    from: isoTime('Begin of the first step.'),
    to: isoTime('End of the last step.'),
    sales: Type.Integer({ description: 'Sum over all points.' }),
    sats: Type.Integer(),
    points: Type.Array(
      Type.Object({
        at: isoTime('Begin of the step; steps without sales are left out.'),
        key: nullableText(
          'What it is the sum of: a source (payment for merchants’ invoices), a proxy, a resource, a scheme (invoice for payments, none where no credential was shown), or a merchant. Empty for what has none; null for all but the 20 that earned most.'
        ),
        name: nullableText('Of a proxy or a merchant, as it is now.'),
        sales: Type.Integer(),
        sats: Type.Integer()
      })
    )
  },
  { title: 'Earnings' }
)
export type EarningsView = Static<typeof EarningsView>

const amounts = {
  requests: Type.Integer(),
  msat: Type.Integer({ description: 'Charged.' }),
  costMsat: Type.Integer({ description: 'The same usage at the prices of the list, without the markup.' })
}
const MarginsView = Type.Object(
  {
    from: isoTime('Begin of the first day.'),
    to: isoTime('End of the last day.'),
    ...amounts,
    points: Type.Array(
      Type.Object({
        at: isoTime('Begin of the day.'),
        model: nullableText('Null for all but the 20 that earned most.'),
        ...amounts
      })
    )
  },
  { title: 'Margins' }
)
export type MarginsView = Static<typeof MarginsView>

function view({ soldAt, merchantId: _whose, ...sale }: SoldChallenge) {
  return { soldAt: iso(soldAt), ...sale }
}

const saleColumns: CsvColumns<SoldChallenge> = {
  soldAt: ({ soldAt }) => iso(soldAt),
  ...memberColumns<SoldChallenge>(
    'source',
    'resource',
    'description',
    'proxyId',
    'scheme',
    'sats',
    'price',
    'state',
    'isRevoked',
    'orderNumber',
    'orderStatus',
    'paymentHash'
  )
}

const earnedColumns: CsvColumns<Earned> = {
  at: ({ at }) => iso(at),
  ...memberColumns<Earned>('key', 'name', 'sales', 'sats')
}

const merchants = { ...settingsRead, method: 'GET' } as const
const operators = { ...adminOperation, method: 'GET' } as const

/** @throws ValidationError for two owners */
function ownerOf({ merchantId, own }: { readonly merchantId?: number; readonly own?: boolean }): SalesOwner {
  if (merchantId !== undefined && own === true)
    throw invalidField('/own', 'Must not be given together with merchantId.')
  return merchantId !== undefined ? { merchantId } : own === true ? 'gateway' : 'all'
}

export function salesOperations(dependencies: SalesOperationDependencies): AnyOperation[] {
  return [...saleLists(dependencies), ...earningSums(dependencies), modelMargins(dependencies)]
}

function saleLists({ store }: SalesOperationDependencies): AnyOperation[] {
  const listing = (owner: SalesOwner, query: SaleQuery) => {
    const { source = null, scheme = null, state = null, proxyId = null, text = null } = query
    const filter = { owner, period: periodOf(query), source, scheme, state, proxyId, text }
    return {
      name: 'sales',
      read: (page: Parameters<SaleStore['list']>[1]) => store.list(filter, page),
      sum: () => store.sum(filter),
      keyOf: ({ soldAt, paymentHash }: SoldChallenge) => ({ at: soldAt, id: paymentHash })
    }
  }
  const page = (schema: TSchema) => ({ 200: { description: 'One page, newest first.', schema, also: CSV } })
  return [
    defineOperation({
      ...merchants,
      id: 'listSales',
      path: '/api/merchant/sales',
      summary: 'List sales of proxies, challenges, stores and bundles, newest first, as JSON pages or CSV',
      description:
        'Each paid challenge once. Invoices that you asked for yourself are at /api/payments. Entries of routes and proxies are listed until a month after their token expired; sums stay.',
      headers: listingHeaders,
      query: SaleQuery,
      responses: page(SalePage),
      handle: ({ ctx, query }) =>
        listed(ctx, query, { ...listing({ merchantId: merchantOf(ctx).id }, query), columns: saleColumns, view })
    }),
    defineOperation({
      ...operators,
      id: 'adminListSales',
      path: '/api/admin/sales',
      summary: "What all merchants and the gateway's own routes sold, newest first, as a page or as CSV",
      description: 'Entries of routes and proxies are listed until a month after their token expired; sums stay.',
      headers: listingHeaders,
      query: AdminSaleQuery,
      responses: page(pageOf(AdminSale, 'AdminSalePage')),
      handle: ({ ctx, query }) =>
        listed(ctx, query, {
          ...listing(ownerOf(query), query),
          columns: { merchantId: ({ merchantId }: SoldChallenge) => merchantId, ...saleColumns },
          view: sale => ({ merchantId: sale.merchantId === null ? null : Number(sale.merchantId), ...view(sale) })
        })
    })
  ]
}

function earningSums({ earnings, clock }: SalesOperationDependencies): AnyOperation[] {
  const answer = async (ctx: Context, owner: SalesOwner, query: EarningsQuery): Promise<Result> => {
    const { by = 'day', of = 'source', proxyId } = query
    if (proxyId !== undefined && of !== 'proxy') throw invalidField('/proxyId', 'Must be given with of=proxy alone.')
    if (of === 'endpoint' && owner === 'all')
      throw invalidField('/of', 'Must not be endpoint without merchantId or own=true.')
    if (of === 'merchant' && owner !== 'all') throw invalidField('/of', 'Must not be merchant for one owner.')
    const { from, to } = stepsOf(by, periodOf(query), clock.now())
    const points = await earnings.sums({ owner, by, of, ...(proxyId === undefined ? {} : { key: proxyId }), from, to })
    if (wantsCsv(ctx, query.format)) {
      const body = csvStream(earnedColumns, async function* () {
        yield points
      })
      return { status: 200, body, mediaType: CSV, headers: csvHeaders('earnings.csv') }
    }
    const total = (member: 'sales' | 'sats'): number => points.reduce((sum, point) => sum + point[member], 0)
    return {
      status: 200,
      body: {
        by,
        of,
        from: iso(from),
        to: iso(to),
        sales: total('sales'),
        sats: total('sats'),
        points: points.map(({ at, ...point }) => ({ at: iso(at), ...point }))
      },
      headers: ['Vary', 'Accept']
    }
  }
  const responses = {
    200: { description: 'Sums by step, highest earnings first.', schema: EarningsView, also: CSV }
  }
  return [
    defineOperation({
      ...merchants,
      id: 'getEarnings',
      path: '/api/merchant/earnings',
      summary: 'Earnings by hour, day or month, and by source',
      description:
        'Sums of what was paid, payments and sales alike, before refunds and fees; exact at any moment. A session counts with its whole deposits ' +
        'when they are paid, under the route that asked for them; its refunds are at /api/admin/sessions. Steps are in UTC: for ' +
        'days of another zone ask by hour. At most 744 hours, 366 days or 120 months.',
      headers: listingHeaders,
      query: EarningsQuery,
      responses,
      handle: ({ ctx, query }) => answer(ctx, { merchantId: merchantOf(ctx).id }, query)
    }),
    defineOperation({
      ...operators,
      id: 'adminGetEarnings',
      path: '/api/admin/earnings',
      summary: "What all merchants and the gateway's own routes earned by hour, day or month, and of what",
      description: 'As a merchant’s own; over all of them also by merchant.',
      headers: listingHeaders,
      query: AdminEarningsQuery,
      responses,
      handle: ({ ctx, query }) => answer(ctx, ownerOf(query), query)
    })
  ]
}

function modelMargins({ margins, clock }: SalesOperationDependencies): AnyOperation {
  return defineOperation({
    ...operators,
    id: 'adminGetMargins',
    path: '/api/admin/margins',
    summary: 'Revenue and cost of models by day, on routes with a price list',
    description:
      'Amounts in millisatoshis, when they were used rather than when their bundle was paid. Days in UTC, at most 366. ' +
      'The margin is what was charged less the cost.',
    query: Type.Pick(Type.Object(earningsQuery), ['from', 'to']),
    responses: { 200: { description: 'Sums by day, highest earnings first.', schema: MarginsView } },
    async handle({ query }) {
      const { from, to } = stepsOf('day', periodOf(query), clock.now())
      const points = await margins.sums(from, to)
      const total = (member: keyof typeof amounts): number => points.reduce((sum, point) => sum + point[member], 0)
      return {
        status: 200,
        body: {
          from: iso(from),
          to: iso(to),
          requests: total('requests'),
          msat: total('msat'),
          costMsat: total('costMsat'),
          points: points.map(({ at, ...point }) => ({ at: iso(at), ...point }))
        }
      }
    }
  })
}
