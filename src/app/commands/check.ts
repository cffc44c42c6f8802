import { formatProblem } from '../../engine/config/diagnose.ts'
import { CONFIG_FLAG } from '../cli/help.ts'
import { defineCommand } from '../cli/command.ts'
import { loadNamed } from '../cli/configuration.ts'
import { dryRun } from '../cli/dry-run.ts'
import type { GatewayConfig } from '../../engine/config/schema.ts'
import { servedOperations } from '../../engine/openapi/paid.ts'
import type { AnyOperation } from '../../engine/operations/operation.ts'
import { SALE_BYTES, saleDocument } from '../discovery/documents.ts'

export const check = defineCommand(
  {
    about: 'Finds mistakes in the configuration',
    details: `Sets up every plugin and provider as a start would, and prints each mistake with file, line and column.
Calls and changes nothing. Warnings do not fail the check.`,
    flags: CONFIG_FLAG,
    examples: ['boltgate check', 'boltgate check --config gateway.production.yaml']
  },
  async (given, _words, out) => {
    const loaded = await loadNamed(given.config)
    const { file } = loaded
    const { config, operations, warnings } = await dryRun(loaded)
    for (const warning of warnings) out.complain(`warning: ${formatProblem(warning)}`)
    const large = largeDocument(config, operations)
    if (large !== null) out.complain(`warning: ${large}`)
    out.print(
      `${file} is valid: ${config.routes.length} routes, ${new Set(config.routes.map(({ chain }) => chain)).size} chains, mode ${config.mode}.`
    )
    return 0
  }
)

/** Says what `/openapi.json` leaves out to stay readable for registries; null if nothing. */
function largeDocument(config: GatewayConfig, operations: readonly AnyOperation[]): string | null {
  const { leftOut, wholeBytes } = saleDocument({
    config,
    publicUrl: config.server.publicUrl,
    operations: servedOperations(config, operations),
    webhooks: {}
  })
  if (wholeBytes <= SALE_BYTES) return null
  const files = config.routes.flatMap(({ openapi }) => openapi ?? [])
  const without =
    leftOut === null
      ? 'give directories fewer routes, or shorter examples'
      : `it is published without the ${leftOut} of the file ${[...new Set(files)].join(', ')}, which are in /api/openapi.json`
  const size = `/openapi.json would have ${Math.ceil(wholeBytes / 1024)} KB`
  return `${size}, and registries read ${SALE_BYTES / 1024} KB of it; ${without}`
}
