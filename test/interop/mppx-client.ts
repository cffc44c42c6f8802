/**
 * mppx as published. It has a package of its own beside this file, because it installs only with viem and legacy peer
 * rules; what it exports is therefore unknown to the type checker, and the little that the tests use is written down
 * here.
 */
import { createRequire } from 'node:module'
import { pathToFileURL } from 'node:url'

/** A challenge as mppx hands it to a method. */
interface Challenge {
  readonly id: string
  readonly method: string
  readonly expires?: string
  readonly digest?: string
  readonly request: {
    readonly amount: string
    readonly currency: string
    readonly methodDetails: { readonly invoice: string; readonly network: string; readonly paymentHash: string }
  }
}

interface PreparedPayment {
  readonly challenge: Challenge
  pay(): Promise<Response>
}

/** What `Mppx.create` answers. */
export interface MppxClient {
  fetch(input: string | Request, init?: RequestInit): Promise<Response>
  prepareRequest(
    input: string,
    init: RequestInit | undefined,
    options: { readonly requirePayment: true }
  ): Promise<{ readonly payment: PreparedPayment; readonly response: Response }>
}

interface Schema {
  readonly schema: unique symbol
}
interface Exports {
  readonly Method: {
    from(method: object): object
    toClient(
      method: object,
      options: { createCredential(parameters: { readonly challenge: Challenge }): Promise<string> }
    ): object
  }
  readonly Credential: {
    serialize(credential: { readonly challenge: Challenge; readonly payload: { readonly preimage: string } }): string
  }
  readonly Receipt: {
    fromResponse(response: Response): {
      readonly method: string
      readonly reference: string
      readonly status: string
      readonly timestamp: string
      readonly challengeId?: string
    }
  }
  readonly z: { object(shape: Record<string, Schema>): Schema; string(): Schema }
}
interface ClientExports {
  readonly Mppx: { create(config: { readonly methods: readonly object[]; readonly polyfill: false }): MppxClient }
}

/** The two entries of mppx that a client uses. */
export interface MppxModule extends Exports, ClientExports {}

const own = createRequire(new URL('mppx/package.json', import.meta.url))

/** Path of the `mppx` command; null where the package is not installed. */
export function mppxProgram(): string | null {
  try {
    return new URL('bin.js', pathToFileURL(own.resolve('mppx'))).pathname
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'MODULE_NOT_FOUND') return null
    throw error
  }
}

/** Loads mppx. Throws where it is not installed. */
export async function loadMppx(): Promise<MppxModule> {
  // A path that is computed gives an unknown module; the interfaces above say what is in it.
  const load = async (entry: string) => import(pathToFileURL(own.resolve(entry)).href)
  return { ...((await load('mppx')) as Exports), ...((await load('mppx/client')) as ClientExports) }
}

/** The lightning method, that pays through `pay`: invoice in, preimage out. */
export function lightningMethod(
  { Method, Credential, z }: MppxModule,
  pay: (invoice: string) => Promise<string>
): object {
  const charge = Method.from({
    name: 'lightning',
    intent: 'charge',
    schema: {
      credential: { payload: z.object({ preimage: z.string() }) },
      request: z.object({
        amount: z.string(),
        currency: z.string(),
        methodDetails: z.object({ invoice: z.string(), network: z.string(), paymentHash: z.string() })
      })
    }
  })
  return Method.toClient(charge, {
    async createCredential({ challenge }) {
      return Credential.serialize({
        challenge,
        payload: { preimage: await pay(challenge.request.methodDetails.invoice) }
      })
    }
  })
}

/** A client with one method, lightning, that pays through `pay`. */
export function lightningClient(mppx: MppxModule, pay: (invoice: string) => Promise<string>): MppxClient {
  return mppx.Mppx.create({ methods: [lightningMethod(mppx, pay)], polyfill: false })
}
