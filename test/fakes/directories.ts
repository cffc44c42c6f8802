import { createHash, randomBytes } from 'node:crypto'
import { createServer, type IncomingMessage } from 'node:http'
import type { Test as T } from 'tap'
import { serve } from '../support/serve.ts'

/**
 * 402index and Satring as their servers judge requests (ryanthegentry/402index, toadlyBroodle/satring): what they need,
 * lengths, states of a claim. Members that they do not know are refused, so that no misspelled one passes.
 */

/** What the fake knows of the gateway that is registered, by path. */
export interface ListedGateway {
  readonly domain: string
  /** As the directory reads it: the status, and the value of WWW-Authenticate. */
  probe(method: string, path: string, body: string | null): Promise<{ status: number; challenge: string; text: string }>
}

interface Answer {
  readonly status: number
  readonly body: object
  readonly headers?: Readonly<Record<string, string>>
}

type Members = Readonly<Record<string, unknown>>

const answer = (status: number, body: object, headers = {}): Answer => ({ status, body, headers })

/** Starts an API whose requests are kept. */
async function start(
  t: T,
  handle: (request: IncomingMessage, path: string, body: Members) => Promise<Answer> | Answer
) {
  const requests: string[] = []
  const server = createServer((request, response) => {
    const pieces: Buffer[] = []
    request
      .on('data', (piece: Buffer) => pieces.push(piece))
      .on('end', () => {
        const text = Buffer.concat(pieces).toString()
        requests.push(`${request.method} ${request.url}`)
        const isJson = text === '' || request.headers['content-type'] === 'application/json'
        const body = (isJson && text !== '' ? JSON.parse(text) : {}) as Members
        void Promise.resolve(
          isJson ? handle(request, request.url ?? '', body) : answer(415, { error: 'JSON only' })
        ).then(({ status, body, headers }) =>
          response.writeHead(status, { 'content-type': 'application/json', ...headers }).end(JSON.stringify(body))
        )
      })
  })
  return { url: `http://127.0.0.1:${await serve(t, server)}`, requests }
}

/** The first member that is unknown, too long or of another type; null if all are fine. */
function fault(body: Members, lengths: Readonly<Record<string, number>>, numbers: readonly string[]): string | null {
  for (const [name, value] of Object.entries(body)) {
    if (numbers.includes(name)) {
      if (!Number.isSafeInteger(value) || Number(value) < 0) return `${name} must be a non-negative integer`
    } else if (!(name in lengths)) return `unknown member ${name}`
    else if (typeof value !== 'string') return `${name} must be a string`
    else if (value.length > (lengths[name] ?? 0)) return `${name} exceeds maximum length of ${lengths[name]} characters`
  }
  return null
}

export async function startFakeIndex(t: T, gateway: ListedGateway) {
  const claims = new Map<string, { hash: string; status: string }>()
  const services = new Map<string, Members>()
  const lengths = { name: 200, description: 2000, url: 2000, provider: 200, category: 100, contact_email: 254 }
  const register = async (body: Members): Promise<Answer> => {
    const missing = ['url', 'name', 'protocol'].filter(name => !body[name])
    if (missing.length > 0) return answer(400, { error: `Missing required fields: ${missing.join(', ')}` })
    const wrong = fault(body, { ...lengths, protocol: 10, http_method: 10, probe_body: 4000 }, ['price_sats'])
    if (wrong !== null) return answer(400, { error: wrong })
    if (!['L402', 'x402', 'MPP'].includes(String(body['protocol']))) return answer(400, { error: 'Invalid protocol' })
    const method = String(body['http_method'] ?? 'GET')
    if (!['GET', 'POST', 'PUT', 'DELETE'].includes(method)) return answer(400, { error: 'Invalid http_method' })
    if (body['contact_email'] !== undefined && !String(body['contact_email']).includes('@'))
      return answer(400, { error: 'Invalid contact_email format' })
    const url = new URL(String(body['url']))
    if (url.host !== gateway.domain) return answer(422, { error: 'L402 verification failed', detail: 'not reachable' })
    const probed = await gateway.probe(
      method === 'POST' ? 'POST' : 'HEAD',
      url.pathname,
      method === 'POST' ? '{}' : null
    )
    if (probed.status !== 402 || !/L402 macaroon="[^"]{10,}", invoice="ln[^"]{100,}"/.test(probed.challenge))
      return answer(422, { error: 'L402 verification failed', detail: `Expected 402, got ${probed.status}` })
    const isVerified = claims.get(url.hostname)?.status === 'verified'
    const service = { id: randomBytes(4).toString('hex'), ...body, status: isVerified ? 'active' : 'pending' }
    services.set(String(body['url']), service)
    const message = isVerified
      ? 'Service registered and live (domain verified).'
      : 'Service registered and pending review. Verify your domain for instant approval.'
    return answer(201, { message, service, also_registered: [], verification: { protocol: 'L402', httpStatus: 402 } })
  }
  const claim = (body: Members): Answer => {
    const wrong = fault(body, { domain: 253, contact_email: 254 }, [])
    const domain = String(body['domain'] ?? '')
    if (wrong !== null || !/^[a-z0-9-]+(\.[a-z0-9-]+)*\.[a-z]{2,}$/.test(domain))
      return answer(400, { error: wrong ?? 'invalid domain format' })
    const known = claims.get(domain)
    if (known?.status === 'verified') return answer(409, { error: 'Domain already verified' })
    const token = randomBytes(32).toString('hex')
    const hash = createHash('sha256').update(token).digest('hex')
    claims.set(domain, { hash, status: 'pending' })
    const url = `https://${domain}/.well-known/402index-verify.txt`
    return answer(known === undefined ? 201 : 200, {
      domain,
      verification_token: token,
      verification_hash: hash,
      verification_url: url,
      instructions: `Place a text file at the URL above containing only this hash: ${hash}`
    })
  }
  const verify = async (body: Members): Promise<Answer> => {
    const known = claims.get(String(body['domain']))
    if (known === undefined) return answer(404, { error: 'No claim found for this domain' })
    if (known.status === 'verified') return answer(409, { error: 'Domain already verified' })
    if (known.status === 'expired') return answer(410, { error: 'Claim has expired. Please initiate a new claim.' })
    const { status, text } = await gateway.probe('GET', '/.well-known/402index-verify.txt', null)
    if (status !== 200) return answer(422, { error: `Verification URL returned HTTP ${status}` })
    if (text.trim() !== known.hash) return answer(422, { error: 'Hash mismatch.' })
    known.status = 'verified'
    return answer(200, { domain: body['domain'], status: 'verified', services_count: 0, retroactively_approved: 0 })
  }
  const fake = await start(t, (request, path, body) => {
    const url = new URL(path, 'http://fake')
    if (request.method === 'POST' && url.pathname === '/api/v1/register') return register(body)
    if (request.method === 'POST' && url.pathname === '/api/v1/claim') return claim(body)
    if (request.method === 'POST' && url.pathname === '/api/v1/claim/verify') return verify(body)
    if (request.method !== 'GET' || url.pathname !== '/api/v1/services') return answer(404, { error: 'Not found' })
    const q = url.searchParams.get('q') ?? ''
    const found = [...services.values()].filter(({ url, status }) => String(url).includes(q) && status === 'active')
    const health = { health_status: 'healthy', uptime_30d: 0.995, latency_p50_ms: 12, last_checked: null }
    return answer(200, { services: found.map(each => ({ ...each, ...health })), total: found.length })
  })
  return { ...fake, claims, services }
}

/** Sells its listing by the L402 challenge and for the credential of a `seller`, which is a gateway of its own. */
export async function startFakeSatring(
  t: T,
  gateway: ListedGateway,
  seller: { challenge(): Promise<string>; isPaid(authorization: string): Promise<boolean> }
) {
  const services = new Map<
    string,
    { slug: string; verified: boolean; challenge: string; token: string; body: Members }
  >()
  const lengths = {
    name: 200,
    url: 500,
    description: 5000,
    pricing_model: 50,
    protocol: 30,
    owner_name: 200,
    owner_contact: 300,
    logo_url: 500,
    mpp_method: 50,
    mpp_realm: 200,
    mpp_currency: 50
  }
  const create = async (body: Members, authorization: string | undefined): Promise<Answer> => {
    const { category_ids: ids, ...rest } = body
    const wrong = fault(rest, lengths, ['pricing_sats'])
    if (wrong !== null) return answer(422, { detail: wrong })
    if (!Array.isArray(ids) || ids.length < 1 || ids.length > 2 || ids.some(id => id !== 1 && id !== 2))
      return answer(422, { detail: 'Select 1–2 categories' })
    if (!['L402', 'L402+MPP', 'MPP'].includes(String(rest['protocol']))) return answer(422, { detail: 'protocol' })
    if (String(rest['protocol']).includes('MPP') && rest['mpp_method'] === undefined)
      return answer(422, { detail: 'mpp_method is required when protocol includes MPP' })
    const known = [...services.values()].find(each => each.body['url'] === rest['url'])
    if (known !== undefined)
      return answer(409, { detail: `A service with this URL already exists: /services/${known.slug}` })
    if (authorization === undefined || !(await seller.isPaid(authorization)))
      return answer(402, { detail: 'Payment Required' }, { 'www-authenticate': await seller.challenge() })
    const slug = String(rest['name'])
      .toLowerCase()
      .replaceAll(/[^a-z0-9]+/g, '-')
    const token = randomBytes(16).toString('hex')
    services.set(slug, { slug, verified: false, challenge: '', token, body })
    return answer(201, { ...rest, id: 1, slug, domain_verified: false, edit_token: token, token_reused: false })
  }
  const fake = await start(t, async (request, path, body) => {
    if (path === '/api/v1/categories')
      return answer(200, [
        { id: 1, name: 'ai/ml', slug: 'ai-ml', description: '' },
        { id: 2, name: 'data', slug: 'data', description: '' }
      ])
    if (request.method === 'POST' && path === '/api/v1/services') return create(body, request.headers.authorization)
    const [, slug = '', step] = /^\/api\/v1\/services\/([a-z0-9-]+)(?:\/recover\/(generate|verify))?$/.exec(path) ?? []
    const service = services.get(slug)
    if (service === undefined) return answer(404, { detail: 'Service not found' })
    if (request.method === 'GET') return answer(200, { slug, domain_verified: service.verified, hit_count_30d: 3 })
    const verify_url = `https://${gateway.domain}/.well-known/satring-verify`
    if (step === 'generate') {
      service.challenge = randomBytes(32).toString('hex')
      return answer(200, { challenge: service.challenge, verify_url, expires_in_minutes: 30 })
    }
    if (service.challenge === '') return answer(400, { detail: 'No active challenge or challenge expired' })
    const { text } = await gateway.probe('GET', '/.well-known/satring-verify', null)
    if (text.trim() !== service.challenge) return answer(403, { detail: 'Challenge code does not match' })
    service.verified = true
    return answer(200, { edit_token: randomBytes(16).toString('hex'), affected_services: [slug] })
  })
  return { ...fake, services }
}
