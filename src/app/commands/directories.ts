import { Type } from 'typebox'
import { nullable } from '../../engine/formats/response-schema.ts'
import { printable, read, type DirectoryCalls } from './directory-calls.ts'
import type { Output } from '../cli/output.ts'

/** What is said of a gateway, and its endpoints that can be called as they are. */
export interface OwnListing {
  readonly domain: string
  readonly name: string
  readonly description: string
  readonly contact: string | undefined
  readonly icon: string | undefined
  readonly categories: readonly string[]
  /** Texts of `discovery.verify`. */
  readonly proofs: Readonly<Partial<Record<'402index-verify.txt' | 'satring-verify', string>>>
  readonly sellsByPayment: boolean
  /** At least one. */
  readonly services: ReadonlyArray<{
    readonly endpoint: string
    readonly method: string
    readonly description: string
    readonly sats: number | null
  }>
}

interface Directory {
  readonly url: string
  /** False if a step failed. */
  publish(listing: OwnListing, calls: DirectoryCalls, out: Output): Promise<boolean>
}

/** Those with an API, by name. */
export const DIRECTORIES: Readonly<Record<string, Directory>> = {
  '402index': { url: 'https://402index.io', publish: publishTo402Index },
  satring: { url: 'https://satring.com', publish: publishToSatring }
}

const Proof = Type.String({ pattern: '^[0-9a-f]{64}$' })
const Claim = Type.Object({ verification_hash: Proof, verification_token: Type.String({ minLength: 1 }) })
const Listed = Type.Object({
  services: Type.Array(
    Type.Object({
      url: Type.String(),
      health_status: nullable(Type.String()),
      uptime_30d: nullable(Type.Number()),
      latency_p50_ms: nullable(Type.Number())
    })
  )
})

async function publishTo402Index(listing: OwnListing, calls: DirectoryCalls, out: Output): Promise<boolean> {
  const { domain, contact, proofs } = listing
  const email = contact === undefined ? {} : { contact_email: contact }
  const known = proofs['402index-verify.txt'] !== undefined
  const verified = known ? await calls.send('POST', '/api/v1/claim/verify', { domain }) : null
  // 404 and 410: no claim, or one that has expired.
  if (!known || verified?.status === 404 || verified?.status === 410) {
    const claimed = await calls.send('POST', '/api/v1/claim', { domain, ...email })
    // 409: verified before.
    if (claimed !== null && claimed.status !== 409) {
      if (claimed.status >= 300) return false
      const claim = read(Claim, claimed)
      prove(out, '402index-verify.txt', claim.verification_hash)
      out.print(`Keep this token; changes of your listings need it: ${printable(claim.verification_token)}`)
      return true
    }
  } else if (verified !== null && verified.status >= 300 && verified.status !== 409) {
    out.print(
      'Serve the text of the last claim at this address. To get another one, delete 402index-verify.txt and run this again.'
    )
    return false
  }
  let isDone = true
  for (const { endpoint, method, description, sats } of listing.services) {
    const registered = await calls.send('POST', '/api/v1/register', {
      url: endpoint,
      name: `${listing.name}: ${method} ${new URL(endpoint).pathname}`.slice(0, 200),
      description: description.slice(0, 2000),
      protocol: 'L402',
      ...(sats === null ? {} : { price_sats: sats }),
      ...(listing.categories[0] === undefined ? {} : { category: listing.categories[0].slice(0, 100) }),
      provider: listing.name.slice(0, 200),
      ...email,
      http_method: method
    })
    if (registered !== null && registered.status >= 300) isDone = false
    if (registered?.status === 429) break
  }
  const found = await calls.send('GET', `/api/v1/services?q=${domain}&limit=200`)
  if (found === null) return true
  const own = new Set(listing.services.map(({ endpoint }) => endpoint))
  for (const { url, health_status, uptime_30d, latency_p50_ms } of read(Listed, found).services)
    if (own.has(url))
      out.print(
        `${printable(health_status ?? 'unknown').padEnd(9)} ${`${uptime_30d === null ? '–' : (uptime_30d * 100).toFixed(1)} %`.padStart(7)} ${`${latency_p50_ms ?? '–'} ms`.padStart(8)}  ${url}`
      )
  return isDone
}

const Categories = Type.Array(Type.Object({ id: Type.Integer(), slug: Type.String() }))
const Slug = Type.String({ pattern: '^[a-z0-9-]{1,200}$' })
const Made = Type.Object({ slug: Slug, edit_token: nullable(Type.String()) })
const Summary = Type.Object({ domain_verified: Type.Boolean(), hit_count_30d: nullable(Type.Integer()) })
const Challenge = Type.Object({ challenge: Proof })
const Edit = Type.Object({ edit_token: Type.String() })

/** Satring lists a service at one address, which it probes with GET. */
async function publishToSatring(listing: OwnListing, calls: DirectoryCalls, out: Output): Promise<boolean> {
  const listed = await calls.send('GET', '/api/v1/categories')
  const ids = listed === null ? ['…'] : categoriesOf(listing, read(Categories, listed), out)
  if (ids === null) return false
  const service = listing.services.find(({ method }) => method === 'GET') ?? listing.services[0]
  const created = await calls.send('POST', '/api/v1/services', {
    name: listing.name.slice(0, 200),
    url: service?.endpoint,
    description: (listing.description || (service?.description ?? '')).slice(0, 5000),
    ...(typeof service?.sats === 'number' ? { pricing_sats: service.sats } : {}),
    protocol: listing.sellsByPayment ? 'L402+MPP' : 'L402',
    ...(listing.sellsByPayment ? { mpp_method: 'lightning' } : {}),
    owner_name: listing.name.slice(0, 200),
    ...(listing.contact === undefined ? {} : { owner_contact: listing.contact }),
    ...(listing.icon === undefined ? {} : { logo_url: listing.icon }),
    category_ids: ids
  })
  if (created === null) return proveToSatring('SLUG', listing, calls, out)
  // 409: listed before; the detail ends with its slug.
  const before = created.status === 409 ? /\/services\/([a-z0-9-]{1,200})\b/.exec(created.text)?.[1] : undefined
  if (before !== undefined) return proveToSatring(before, listing, calls, out)
  if (created.status !== 201) return false
  const { slug, edit_token } = read(Made, created)
  if (edit_token !== null) out.print(`Keep this token; changes of the listing need it: ${printable(edit_token)}`)
  return proveToSatring(slug, listing, calls, out)
}

function categoriesOf(
  { categories }: OwnListing,
  all: ReadonlyArray<{ readonly id: number; readonly slug: string }>,
  out: Output
): number[] | null {
  const ids = all.filter(({ slug }) => categories.includes(slug)).map(({ id }) => id)
  if (ids.length > 0) return ids.slice(0, 2)
  const names = all.map(({ slug }) => printable(slug)).join(', ')
  out.print(`Satring needs one or two categories. Set discovery.categories to some of: ${names}`)
  return null
}

async function proveToSatring(slug: string, listing: OwnListing, calls: DirectoryCalls, out: Output): Promise<boolean> {
  const summary = await calls.send('GET', `/api/v1/services/${slug}`)
  if (summary !== null && summary.status !== 200) return false
  const found = summary === null ? null : read(Summary, summary)
  let isVerified = found?.domain_verified === true
  if (!isVerified && listing.proofs['satring-verify'] !== undefined) {
    const verified = await calls.send('POST', `/api/v1/services/${slug}/recover/verify`)
    if (verified === null) return true
    isVerified = verified.status === 200
    // 400 and 403: the challenge has expired, or it is another one.
    if (isVerified)
      out.print(`Keep this token instead of the one before: ${printable(read(Edit, verified).edit_token)}`)
    else if (verified.status !== 400 && verified.status !== 403) return false
  }
  if (isVerified) {
    out.print(`The domain is verified. ${found?.hit_count_30d ?? 0} views in 30 days.`)
    return true
  }
  const created = await calls.send('POST', `/api/v1/services/${slug}/recover/generate`)
  if (created === null) return true
  if (created.status !== 200) return false
  prove(out, 'satring-verify', read(Challenge, created).challenge)
  out.print('It is valid for 30 minutes.')
  return true
}

/** In quotes: a text such as `12e34` is a number in YAML. */
function prove(out: Output, file: string, text: string): void {
  out.print('Prove the domain: add this to gateway.yaml, and run the same command again.\n')
  out.print(`discovery:\n  verify:\n    ${file}: "${text}"\n`)
}
