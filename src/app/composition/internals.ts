/** Names of the internal upstreams, for the check of routes. */
export const INTERNALS = Object.freeze(['api', 'demo'])
