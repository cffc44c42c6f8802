import type { SessionFailureSlug } from '../../lightning/payment-scheme/payment-problem.ts'

export class SessionActionRefused extends Error {
  override name = 'SessionActionRefused'
  readonly slug: SessionFailureSlug
  readonly shortage: { readonly balanceMsat: number; readonly requiredMsat: number } | null

  constructor(
    slug: SessionFailureSlug,
    detail: string,
    shortage: { readonly balanceMsat: number; readonly requiredMsat: number } | null = null
  ) {
    super(detail)
    this.slug = slug
    this.shortage = shortage
  }
}

export function unknownRefusal(): SessionActionRefused {
  return new SessionActionRefused('lightning/session-not-found', 'There is no such session here')
}

export function closedRefusal(): SessionActionRefused {
  return new SessionActionRefused('lightning/session-closed', 'The session is closed')
}

export function usedRefusal(): SessionActionRefused {
  return new SessionActionRefused('lightning/unknown-challenge', 'The challenge was used before')
}
