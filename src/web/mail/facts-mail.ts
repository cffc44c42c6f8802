import { currentLanguage } from '../../engine/formats/language.ts'
import type { VNode } from 'preact'
import { renderToString } from 'preact-render-to-string'
import { html } from '../kit/document.ts'
import type { Mail } from './mail.ts'

export type Fact = readonly [name: string, value: string]

/** A mail about money. Every text is one line. */
export interface FactsMail {
  readonly to: string
  readonly subject: string
  readonly heading: string
  readonly words: string
  readonly facts: readonly Fact[]
  readonly why: string
  /** Message id, the same for a resend. */
  readonly id: string
}

/** As plain text and HTML. */
export function factsMail({ to, subject, heading, words, facts, why, id }: FactsMail): Mail {
  const width = Math.max(...facts.map(([name]) => name.length)) + 2
  return {
    to,
    subject,
    text: [words, '', ...facts.map(([name, value]) => `${name.padEnd(width)}${value}`), '', why, ''].join('\n'),
    html: `<!doctype html>${renderToString(body(heading, words, facts, why))}`,
    id
  }
}

/** Inline styles: mail clients drop style sheets. */
function body(heading: string, thanks: string, facts: readonly Fact[], why: string): VNode {
  const cell = 'padding:6px 16px 6px 0;vertical-align:top;text-align:left;'
  return html`
    <html lang=${currentLanguage()}>
      <head><meta charset="utf-8" /><title>${heading}</title></head>
      <body style="margin:0;padding:24px;background:#f4f6f5;color:#17211d;font:16px/1.5 system-ui,sans-serif;">
        <div style="max-width:560px;margin:0 auto;padding:24px;background:#ffffff;border-radius:12px;">
          <h1 style="margin:0 0 8px;font-size:20px;color:#0b7453;">${heading}</h1>
          <p style="margin:0 0 16px;">${thanks}</p>
          <table style="border-collapse:collapse;">
            ${facts.map(([name, value]) => html`<tr><th style=${`${cell}font-weight:normal;color:#5a6a63;white-space:nowrap;`}>${name}</th><td style=${`${cell}word-break:break-word;`}>${value}</td></tr>`)}
          </table>
          <p style="margin:16px 0 0;font-size:13px;color:#5a6a63;">${why}</p>
        </div>
      </body>
    </html>`
}
