/**
 * Version of the HTTP contract, sent as X-API-Version on every response; independent of the package's version (decision
 * 13).
 */
export const API_VERSION = '1.0.0'
