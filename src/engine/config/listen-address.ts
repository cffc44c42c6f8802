import { isAbsolute, resolve } from 'node:path'
import ipaddr from 'ipaddr.js'

export interface HostAndPort {
  readonly host: string
  readonly port: number
}

export type ListenAddress =
  | (HostAndPort & {
      readonly kind: 'tcp'
      /** Without TLS although there are certificates. */
      readonly isPlain: boolean
    })
  | { readonly kind: 'unix'; readonly path: string }

/**
 * `127.0.0.1:8080`, `[::1]:8080`, `localhost:0`, `http://0.0.0.0:80`, `unix:/run/boltgate/http.sock`. Undefined for
 * other text.
 */
export function parseListen(text: string): ListenAddress | undefined {
  const path = /^unix:(.+)$/.exec(text)?.[1]
  if (path !== undefined) return { kind: 'unix', path }
  const match = /^(http:\/\/)?(?:\[([0-9A-Fa-f:.]+)\]|([A-Za-z0-9.-]+)):([0-9]{1,5})$/.exec(text)
  const [, scheme, bracketed, name] = match ?? []
  const host = bracketed ?? name
  const port = Number(match?.[4])
  if (host === undefined || !(port <= 65535)) return undefined
  if (bracketed !== undefined && !ipaddr.IPv6.isValid(host)) return undefined
  // A host that ends in a number and is no IPv4 address is invalid (WHATWG URL, host parsing), and publicUrl contains
  // it.
  if (name !== undefined && !URL.canParse(`http://${host}`)) return undefined
  return { kind: 'tcp', host, port, isPlain: scheme !== undefined }
}

/** Reads what the schema's format has accepted; relative paths of sockets are of the file's `folder`. */
export function readListen(texts: readonly string[], folder: string): readonly ListenAddress[] {
  return texts.flatMap(text => {
    const address = parseListen(text) ?? []
    return 'path' in address && !isAbsolute(address.path)
      ? { ...address, path: resolve(folder, address.path) }
      : address
  })
}

/** The address of a URL, with brackets for IPv6. */
export function hostAndPort({ host, port }: HostAndPort): string {
  return `${host.includes(':') ? `[${host}]` : host}:${port}`
}

/** Where a client of this machine connects: a wildcard address is not connectable. */
export function reachable({ host, port }: HostAndPort): string {
  return hostAndPort({ host: isWildcard(host) ? '127.0.0.1' : host, port })
}

export function isWildcard(host: string): boolean {
  return host === '0.0.0.0' || host === '::'
}

export function listenText(address: ListenAddress): string {
  return address.kind === 'unix' ? `unix:${address.path}` : `${address.isPlain ? 'http://' : ''}${hostAndPort(address)}`
}

/** Where clients are meant to connect: the first that is no Unix socket and redirects to no other. */
export function mainAddress(addresses: readonly ListenAddress[]): (ListenAddress & { kind: 'tcp' }) | undefined {
  const all = addresses.filter(address => address.kind === 'tcp')
  return all.find(({ isPlain }) => !isPlain) ?? all[0]
}

/** Of the main address; 0 without one. */
export function portOf(addresses: readonly ListenAddress[]): number {
  return mainAddress(addresses)?.port ?? 0
}

/** For clients of this machine alone, at any free port. */
export function localAddress(port = 0): ListenAddress {
  return { kind: 'tcp', host: '127.0.0.1', port, isPlain: false }
}
