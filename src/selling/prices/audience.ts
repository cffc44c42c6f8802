import type { AudienceEntry } from '../../engine/checks/price.ts'
import type { Context } from '../../engine/message/context.ts'
import type { Maybe } from '../../platform/state/state.ts'
import { SearchEngines, type NameService } from './search-engine.ts'
import { SignedAgents, type SignedAgentDependencies } from './signed-agent.ts'

/** Tells whether a request comes from an audience. What cannot be proven is not so. */
export class Audiences {
  readonly #engines: SearchEngines
  readonly #agents: SignedAgents

  constructor(dependencies: SignedAgentDependencies & { readonly names?: NameService }) {
    this.#engines = new SearchEngines(dependencies, dependencies.names)
    this.#agents = new SignedAgents(dependencies)
  }

  /** @param authority host of this route, without a default port */
  includes(ctx: Context, { who, agents }: AudienceEntry, authority: string): Maybe<boolean> {
    if (who === 'browser') return isLikeBrowser(ctx)
    if (who === 'search-engine') return this.#engines.includes(ctx)
    const agent = this.#agents.agent(ctx, authority, agents ?? null)
    return agent instanceof Promise ? agent.then(host => host !== null) : agent !== null
  }
}

/**
 * A claim, never proof: any client can send these headers. Requests of a page's scripts count too, or the page that
 * waits for its payment would wait for another price.
 */
function isLikeBrowser({ headers }: Context): boolean {
  return headers.get('user-agent')?.startsWith('Mozilla/') === true && headers.has('sec-fetch-mode')
}
