import type { Merchants } from '../../accounts/merchants/service.ts'
import { exampleOf, type PricedRoute } from '../../engine/openapi/paid.ts'
import { keyInSlot } from '../../lightning/providers/account.ts'
import type { ProxyStore } from './store.ts'

/** A text file names no more. */
const MOST = 200

/** Merchants' APIs that are published: those that their merchants list, and that can be sold. */
export async function listedApis(
  store: Pick<ProxyStore, 'listed'>,
  merchants: Pick<Merchants, 'byIds'>
): Promise<PricedRoute[]> {
  const rows = await store.listed(MOST)
  if (rows.length === 0) return []
  const sellers = await merchants.byIds([...new Set(rows.map(row => row.merchantId))])
  return rows.flatMap(({ proxyId, merchantId, allowedMethods, endpoints, examples, ...row }) => {
    const seller = sellers.get(merchantId)
    if (seller?.isActive !== true || keyInSlot(seller) === null) return []
    const base = `/l402/proxy/${proxyId}`
    return [
      {
        path: `${base}/{path}`,
        methods: allowedMethods.map(method => method.toLowerCase()),
        price: row.defaultPrice === null && endpoints.length === 0 ? row.defaultPriceSats : null,
        description: row.description === null ? row.name : `${row.name}: ${row.description}`,
        examples: examples.map(example => {
          const { target, ...more } = exampleOf(example)
          return { ...more, target: `${base}${target}` }
        })
      }
    ]
  })
}
