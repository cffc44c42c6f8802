import { statusOf } from '../peers/row.ts'
import type { Target } from '../peers/target.ts'

/** A gateway that lets everybody in would be fast. This one must not. @throws Error when it does not guard the route */
export async function proveGate(gateway: Target, path: string, authorization: string): Promise<void> {
  const ask = (headers: Readonly<Record<string, string>>): Promise<number> =>
    statusOf(gateway, { method: 'GET', path, headers, body: null })
  const forged = `${authorization.slice(0, -1)}${authorization.endsWith('0') ? '1' : '0'}`
  const found = {
    paid: await ask({ authorization }),
    unpaid: await ask({}),
    forged: await ask({ authorization: forged })
  }
  if (found.paid !== 200 || found.unpaid !== 402 || found.forged < 400 || found.forged > 499) {
    throw new Error(`it does not guard the route, so there is nothing to measure: ${JSON.stringify(found)}`)
  }
}
