/** Codes of docs/errors.md by what the system says of an address. */
const CODES = {
  EADDRINUSE: 'BG_LISTEN_IN_USE',
  EACCES: 'BG_LISTEN_DENIED',
  EPERM: 'BG_LISTEN_DENIED',
  EADDRNOTAVAIL: 'BG_LISTEN_ADDRESS',
  EAFNOSUPPORT: 'BG_LISTEN_ADDRESS',
  EINVAL: 'BG_LISTEN_ADDRESS',
  ENOTFOUND: 'BG_LISTEN_ADDRESS',
  EAI_AGAIN: 'BG_LISTEN_ADDRESS'
} as const

type ListenCode = (typeof CODES)[keyof typeof CODES]

/** The port cannot be opened where `server.listen` says, which only the operator can change. */
export class ListenError extends Error {
  override name = 'ListenError'
  readonly code: ListenCode

  constructor(code: ListenCode, message: string, cause: Error) {
    super(message, { cause })
    this.code = code
  }
}

/** What the system says of an address in words of ours; what the address has no part in stays as it is. */
export function listenError(host: string, port: number, cause: Error): Error {
  const reason = 'code' in cause ? String(cause.code) : ''
  if (!isKnown(reason)) return cause
  const code = CODES[reason]
  const at = `${host.includes(':') ? `[${host}]` : host}:${port}`
  return new ListenError(code, `server.listen: ${words(code, host, at, reason)} (${reason})`, cause)
}

function isKnown(reason: string): reason is keyof typeof CODES {
  return Object.hasOwn(CODES, reason)
}

function words(code: ListenCode, host: string, at: string, reason: string): string {
  switch (code) {
    case 'BG_LISTEN_IN_USE':
      return `another program listens at ${at}; stop it, or choose another port, which is the variable PORT for the file that comes with boltgate`
    case 'BG_LISTEN_DENIED':
      return `the user of this process may not listen at ${at}; choose a port from 1024 up, or give the process CAP_NET_BIND_SERVICE`
    case 'BG_LISTEN_ADDRESS':
      return reason === 'ENOTFOUND' || reason === 'EAI_AGAIN'
        ? `the name ${host} has no address here; use an address of this machine, 127.0.0.1 for itself alone or 0.0.0.0 for all of its addresses`
        : `${host} is no address of this machine; use one that is, 127.0.0.1 for itself alone or 0.0.0.0 for all of its addresses`
  }
}
