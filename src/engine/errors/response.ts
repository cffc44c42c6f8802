import { accessErrors } from './response/access.ts'
import { accountErrors } from './response/accounts.ts'
import { challengeErrors } from './response/challenges.ts'
import { paymentErrors } from './response/payments.ts'
import { planErrors } from './response/plans.ts'
import { providerErrors } from './response/providers.ts'
import { proxyErrors } from './response/proxies.ts'
import { requestErrors } from './response/requests.ts'
import { storeErrors } from './response/stores.ts'

/**
 * What clients are answered with. The code of a response stands in the log; the body has what the contract says, where
 * `status` and `error` are what clients decide by (contract, Errors).
 */
export const responseErrors = {
  ...requestErrors,
  ...accessErrors,
  ...planErrors,
  ...providerErrors,
  ...paymentErrors,
  ...challengeErrors,
  ...proxyErrors,
  ...accountErrors,
  ...storeErrors
}
