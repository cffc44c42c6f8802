/**
 * The official MCP client and reference server as published. They have a package of their own beside this file; the
 * little that the tests use of them is written down here.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createServer } from 'node:net'
import { createRequire } from 'node:module'
import { pathToFileURL } from 'node:url'
import type { Test as T } from 'tap'

/** A result of a tool. */
export interface ToolResult {
  readonly content: readonly { readonly type: string; readonly text?: string }[]
  readonly isError?: boolean
  readonly _meta?: Readonly<Record<string, unknown>>
  /** What mppx puts there. */
  readonly receipt?: unknown
}

export interface CallParameters {
  readonly name: string
  readonly arguments: object
  readonly _meta?: object
}

/** The official client. */
export interface McpClient {
  connect(transport: object): Promise<void>
  close(): Promise<void>
  listTools(): Promise<{ readonly tools: readonly { readonly name: string }[] }>
  callTool(params: CallParameters, schema?: undefined, options?: object): Promise<ToolResult>
  readResource(params: { readonly uri: string; readonly _meta?: object }): Promise<{
    readonly contents: readonly object[]
    readonly _meta?: Readonly<Record<string, unknown>>
  }>
  getServerCapabilities(): { readonly experimental?: object } | undefined
}

/** The transport of streamable HTTP. */
export interface McpTransport {
  readonly sessionId?: string
  terminateSession(): Promise<void>
}

interface Sdk {
  readonly Client: new (info: { readonly name: string; readonly version: string }) => McpClient
  readonly StreamableHTTPClientTransport: new (
    url: URL,
    options?: { readonly fetch?: (input: string | Request, init?: RequestInit) => Promise<Response> }
  ) => McpTransport
}

const own = createRequire(new URL('mcp/package.json', import.meta.url))
const SERVER = '@modelcontextprotocol/server-everything/dist/index.js'

/** Whether the package beside this file is installed. */
export function hasMcpSdk(): boolean {
  try {
    own.resolve(SERVER)
    return true
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'MODULE_NOT_FOUND') return false
    throw error
  }
}

/** Loads the client. */
export async function loadMcpSdk(): Promise<Sdk> {
  // A path that is computed gives an unknown module; the interface above says what is in it.
  const load = async (entry: string) => import(pathToFileURL(own.resolve(entry)).href)
  return {
    ...((await load('@modelcontextprotocol/sdk/client/index.js')) as Pick<Sdk, 'Client'>),
    ...((await load('@modelcontextprotocol/sdk/client/streamableHttp.js')) as Pick<
      Sdk,
      'StreamableHTTPClientTransport'
    >)
  }
}

/** Starts the reference server on a free port; it ends with the test. Answers its origin. */
export async function startEverything(t: T): Promise<string> {
  const probe = createServer().listen(0, '127.0.0.1')
  await once(probe, 'listening')
  const address = probe.address()
  if (address === null || typeof address === 'string') throw new Error('no port is free')
  probe.close()
  await once(probe, 'close')
  const child = spawn(process.execPath, [own.resolve(SERVER), 'streamableHttp'], {
    env: { PATH: '', PORT: String(address.port) },
    stdio: ['ignore', 'pipe', 'pipe']
  })
  const ended = once(child, 'exit')
  t.teardown(async () => {
    child.kill('SIGKILL')
    await ended
  })
  await new Promise<void>((resolve, reject) => {
    let said = ''
    for (const stream of [child.stdout, child.stderr]) {
      stream.setEncoding('utf8').on('data', piece => {
        said += String(piece)
        if (said.includes('listening on port')) resolve()
      })
    }
    child.on('exit', () => {
      reject(new Error(`the server has ended: ${said}`))
    })
  })
  return `http://127.0.0.1:${address.port}`
}
