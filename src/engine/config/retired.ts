import type { Path } from './diagnose.ts'

/**
 * Removed settings and what replaced them. Paths leave out list indexes; `*` is a name that the operator chose.
 */
export const RETIRED: Readonly<Record<string, string>> = {
  'routes.rechallenge': 'no client pays on a 401 or 403, whatever lines it has; write `renewal: 402` instead',
  'payment.maxOutstanding.proxy':
    'it counted the invoices of all clients together, which strangers could fill; `place` caps those of one client address'
}

const PATTERNS = Object.entries(RETIRED).map(([path, sentence]) => [path.split('.'), sentence] as const)

/** What replaced the setting at this path, if it was removed. */
export function replacementOf(path: Path): string | undefined {
  const steps = path.filter(step => typeof step === 'string')
  return PATTERNS.find(
    ([pattern]) => pattern.length === steps.length && pattern.every((step, at) => step === '*' || step === steps[at])
  )?.[1]
}
