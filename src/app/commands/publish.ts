import type { GatewayConfig } from '../../engine/config/schema.ts'
import { pricedRoutes } from '../../engine/openapi/paid.ts'
import { loadNamed } from '../cli/configuration.ts'
import { DIRECTORIES, type OwnListing } from './directories.ts'
import { DirectoryCalls } from './directory-calls.ts'
import { CONFIG_FLAG } from '../cli/help.ts'
import { defineCommand } from '../cli/command.ts'
import { UsageError, type Output } from '../cli/output.ts'
import { addressOption } from '../cli/request-options.ts'
import { soldServices } from '../discovery/manifests.ts'
import { MOST_SATS, ownWallet, walletOf } from './pay.ts'
import { titleOf } from '../../engine/sections/suite.ts'

const NAMES = Object.keys(DIRECTORIES)
export const publish = defineCommand(
  {
    about: 'Registers what you sell with a directory',
    takes: NAMES.join('|'),
    words: NAMES,
    word: 'directory',
    details: `Proves that the domain is yours, registers the endpoints of your routes, and prints what the directory says of their
health. Shows each request, and sends none without --send. Run it again after each step that it asks for.`,
    flags: {
      '--send': 'Send the requests',
      '--wallet <wallet>': 'Wallet that pays for a listing, as in boltgate pay (default: $BOLTGATE_WALLET)',
      '--max <sats>': `Most that it pays (default: ${MOST_SATS})`,
      '--at <url>': 'Address of another server with the API of this directory',
      ...CONFIG_FLAG
    },
    examples: ['boltgate publish 402index', 'boltgate publish 402index --send']
  },
  async (values, words, out) => {
    const directory = DIRECTORIES[words[0] ?? '']
    if (directory === undefined) throw new TypeError('an unknown directory is refused before')
    const wallet = values.wallet ?? ownWallet()
    const at = addressOption('--at', values.at ?? directory.url)
    const payer = wallet === undefined ? null : walletOf(wallet, at.href, values.max)
    const { config } = await loadNamed(values.config)
    if (config.lightning.primary.every(({ kind }) => kind === 'sandbox'))
      out.complain(
        'The invoices of this configuration are of the sandbox, which no buyer can pay: set lightning.primary first.'
      )
    const listing = listingOf(config, out)
    const done = await directory.publish(
      listing,
      new DirectoryCalls(at, values.send ? payer : null, values.send, out),
      out
    )
    if (!values.send) out.print('Dry run: nothing was sent. Add --send to send these requests.')
    return done ? 0 : 1
  }
)

const METHODS: ReadonlySet<string> = new Set(['GET', 'POST', 'PUT', 'DELETE'])

/** @throws UsageError without a public name, or without anything that can be called */
function listingOf(config: GatewayConfig, out: Output): OwnListing {
  const { discovery, server } = config
  const url = URL.canParse(server.publicUrl) ? new URL(server.publicUrl) : null
  if (url === null || url.protocol !== 'https:' || url.port !== '' || !/\.[a-z]{2,}$/.test(url.hostname))
    throw new UsageError(
      `Directories call the gateway at its public name: set server.publicUrl to an address such as https://api.example.com, not "${server.publicUrl}".`
    )
  const sold = soldServices(
    url.origin,
    pricedRoutes(config).filter(route => !route.own && route.price !== null)
  )
  const services = sold.filter(({ endpoint, method }) => {
    const isCallable = !/[*{]/.test(endpoint) && METHODS.has(method)
    if (!isCallable)
      out.complain(`${method} ${endpoint} is left out: directories cannot call it. Give its route examples.`)
    return isCallable
  })
  if (services.length === 0)
    throw new UsageError('Nothing to register: no route has a price and an address that can be called.')
  return {
    domain: url.hostname,
    name: titleOf(config),
    description: discovery.description,
    contact: discovery.contact,
    icon: discovery.icon,
    categories: discovery.categories,
    proofs: discovery.verify,
    sellsByPayment: config.payment.schemes.includes('payment'),
    services
  }
}
