/** What providers charge beside or above the prices of tokens in a list. */
import type { Context } from '../../engine/message/context.ts'
import type { JsonText } from '../prices/json-text.ts'
import { ofBody, readField, unreadable } from '../prices/request-field.ts'

const TIER = /^(?:auto|default|standard|standard_only|flex|on_demand|SERVICE_TIER_(?:STANDARD|FLEX|UNSPECIFIED))$/

/** Members that may multiply the prices of a catalog, with the values that do not. Protocol buffers know two names. */
const SURCHARGED = [
  ['service_tier', TIER],
  ['serviceTier', TIER],
  ['inference_geo', /^global$/],
  ['speed', /^(?:standard|[0-9.]+)$/]
] as const
const VERTEX_TIER = 'x-vertex-ai-llm-shared-request-type'

/** @throws LongError 400 for a tier that may have other prices */
export async function requireListedTier(ctx: Context): Promise<void> {
  for (const [name, listed] of SURCHARGED) {
    const value = await readField({ json: name }, ctx)
    if (value !== null && !listed.test(String(value)))
      throw unreadable(`${JSON.stringify(name)} must be left out, since ${JSON.stringify(value)} may have other prices`)
  }
  if (ctx.headers.all(VERTEX_TIER).some(value => !/^(?:standard|flex)$/.test(value)))
    throw unreadable(`the header ${VERTEX_TIER} must be left out, since it may have other prices`)
}

/** Tools of OpenAI and Anthropic that cost no more than their tokens, such as those that the client runs. */
const FREE_TYPES =
  /^(?:function|custom|namespace|mcp|mcp_toolset|local_shell|apply_patch|computer|computer_use_preview|tool_search|tool_search_tool_(?:regex|bm25)|(?:bash|text_editor|computer|memory|web_fetch|tool_search_tool_(?:regex|bm25))_[0-9]{8})$/
/** Those of Gemini are members, in two spellings. */
const FREE_MEMBERS = /^(?:function_?declarations|code_?execution|url_?context|computer_?use)$/i
/** Those with a fee, which LiteLLM takes in the forms of OpenAI and Anthropic too, whatever `type` says. */
const GROUNDING = /^(?:google_?(?:search(?:_?retrieval)?|maps)|enterprise_?web_?search)$/i
/** Anthropic's, which its usage counts. */
const WEB_SEARCH = /^web_search_[0-9]{8}$/
/** Members that have OpenAI's, OpenRouter's, xAI's and Alibaba's models search. */
const SEARCHING = ['web_search_options', 'plugins', 'search_parameters', 'enable_search']
/** Reading one takes some microseconds. */
const MOST_TOOLS = 1024
/** Reserved for a tool without `max_uses`. */
const SEARCHES = 10

interface ProviderTools {
  /** Counted web searches that the request may take. */
  readonly searches: number
  /** What else may have a fee; null for nothing. */
  readonly charged: string | null
}

const NO_TOOLS: ProviderTools = { searches: 0, charged: null }

/** @throws LongError as `readField` */
export async function providerTools(ctx: Context, isGemini: boolean): Promise<ProviderTools> {
  return (await ofBody('tools', ctx, text => toolsIn(text, isGemini))) ?? NO_TOOLS
}

function toolsIn(text: JsonText, isGemini: boolean): ProviderTools {
  const overridden = text.overridden(['tools'])
  if (overridden?.kind === 'fault') throw unreadable(overridden.message)
  for (const name of SEARCHING) {
    const value = text.raw(name)
    if (value.kind === 'fault') throw unreadable(value.message)
    if (value.kind === 'raw' && !/^(?:null|false)$/.test(value.text)) return { searches: 0, charged: show(name) }
  }
  const tools = text.list('tools')
  if ('kind' in tools) {
    if (tools.kind === 'fault') throw unreadable(tools.message)
    return NO_TOOLS
  }
  if (tools.length > MOST_TOOLS) throw unreadable(`"tools" must have at most ${MOST_TOOLS} items`)
  let searches = 0
  for (const tool of tools) {
    const names = text.namesAt(tool)
    if (typeof names === 'string') throw unreadable(`an item of "tools" ${names}`)
    const charged = names.find(name => (isGemini ? !FREE_MEMBERS.test(name) : GROUNDING.test(name)))
    if (charged !== undefined) return { searches, charged: show(charged) }
    if (isGemini) continue
    const [type, uses] = ['type', 'max_uses'].map(name => {
      const read = text.member([name], tool)
      if (read.kind === 'fault') throw unreadable(read.message)
      return read.kind === 'value' ? read.value : null
    })
    if (WEB_SEARCH.test(String(type))) searches += typeof uses === 'number' && uses > 0 ? uses : SEARCHES
    else if (type !== null && !FREE_TYPES.test(String(type))) return { searches, charged: show(String(type)) }
  }
  return { searches, charged: null }
}

function show(name: string): string {
  return JSON.stringify(name.slice(0, 100))
}
