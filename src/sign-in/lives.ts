/** Milliseconds for which a link can be used (decision 170). */
export const LINK_LIFE = 15 * 60_000

/** Milliseconds for which somebody stays signed in. */
export const SESSION_LIFE = 12 * 3_600_000
