import { defineError, CodedError } from '../../platform/system/errors.ts'

const LISTEN_FAILED = defineError('BG_LISTEN_FAILED', {
  cause:
    'The gateway cannot listen at `server.listen`: another program uses the port, ports below 1024 need privileges, or the address is not of this machine.',
  fix: 'Stop the other program or choose another port, from 1024 up without CAP_NET_BIND_SERVICE; use 0.0.0.0 for all addresses, 127.0.0.1 for local clients.'
})

/** What the system says of an address in words of ours; what the address has no part in stays as it is. */
export function listenError(host: string, port: number, cause: Error): Error {
  const reason = 'code' in cause ? String(cause.code) : ''
  const text = words(host, `${host.includes(':') ? `[${host}]` : host}:${port}`, reason)
  return text === null ? cause : new CodedError(LISTEN_FAILED, `server.listen: ${text} (${reason})`, { cause })
}

function words(host: string, at: string, reason: string): string | null {
  switch (reason) {
    case 'EADDRINUSE':
      return `another program listens at ${at}; stop it, or choose another port, which is the variable PORT for the file that comes with boltgate`
    case 'EACCES':
    case 'EPERM':
      return `the user of this process may not listen at ${at}; choose a port from 1024 up, or give the process CAP_NET_BIND_SERVICE`
    case 'ENOTFOUND':
    case 'EAI_AGAIN':
      return `the name ${host} has no address here; use an address of this machine, 127.0.0.1 for itself alone or 0.0.0.0 for all of its addresses`
    case 'EADDRNOTAVAIL':
    case 'EAFNOSUPPORT':
    case 'EINVAL':
      return `${host} is no address of this machine; use one that is, 127.0.0.1 for itself alone or 0.0.0.0 for all of its addresses`
    default:
      return null
  }
}
