import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { rootFolder } from './gateway.ts'

/** A fenced block of a page. */
export interface Block {
  readonly page: string
  readonly language: string
  /** File name in a comment on the first line, such as `# fixed.yaml`. */
  readonly name: string | null
  readonly text: string
  /** Whether `<!-- not run: reason -->` is on the line before it. */
  readonly isSkipped: boolean
}

/** Pages whose `sh` blocks run as written, in one shell for each list. */
export const FOLLOWED = {
  merchants: [
    'docs/tutorials/take-a-payment.md',
    'docs/how-to/webhooks.md',
    'docs/how-to/payment-links.md',
    'docs/how-to/sandbox.md',
    'docs/how-to/refunds.md',
    'docs/how-to/shop.md',
    'docs/how-to/reports.md',
    'docs/how-to/proxies.md',
    'docs/how-to/plans.md',
    'docs/how-to/accounts.md'
  ],
  tutorials: [
    'docs/tutorials/first-request.md',
    'docs/tutorials/sell-an-llm.md',
    'docs/tutorials/sell-an-mcp-server.md'
  ]
} as const

/** All pages with instructions: generated references and records of decisions have none. */
export const guides = globSync(
  [
    'README.md',
    'docs/*.md',
    'docs/{tutorials,how-to,explanation}/**/*.md',
    'docs/reference/{api,limits,plugin-api}.md'
  ],
  { cwd: rootFolder, exclude: ['docs/explanation/adr/**', 'docs/explanation/decisions.md'] }
).sort()

export function blocksOf(page: string): Block[] {
  const text = readFileSync(join(rootFolder, page), 'utf8')
  return [...text.matchAll(/(<!-- not run: .+ -->\n)?^( *)```(\w*)\n([\s\S]*?)^\2```$/gm)].map(
    ([, skipped, indent = '', language = '', body = '']) => ({
      page,
      language,
      name: /^(?:#|\/\/|--) ([\w.-]+\.\w+)/.exec(body)?.[1] ?? null,
      text: body.replaceAll(new RegExp(`^${indent}`, 'gm'), ''),
      isSkipped: skipped !== undefined
    })
  )
}

/** The block of the documentation with this file name. @throws Error when no page has it. */
export function documented(name: string): string {
  const block = guides.flatMap(blocksOf).find(block => block.name === name)
  if (block === undefined) throw new Error(`no page of the documentation has a block ${name}`)
  return block.text
}

/** Commands of these pages that are not marked as not run, in order. */
export function commandsOf(pages: readonly string[]): string[] {
  return pages
    .flatMap(blocksOf)
    .filter(({ language, isSkipped }) => language === 'sh' && !isSkipped)
    .map(({ text }) => text)
}
