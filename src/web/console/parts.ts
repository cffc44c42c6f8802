import type { ComponentChildren, VNode } from 'preact'
import { html } from '../kit/document.ts'

/** One column of a table of `T`. */
export interface TableColumn<T> {
  readonly title: string
  readonly cell: (row: T) => ComponentChildren
  /** Numbers stand to the right. */
  readonly isNumber?: true
}

/** A table; on a narrow screen each row is a card. `empty` is what stands in the place of no rows, and says what to do. */
export function table<T>(
  caption: string,
  columns: ReadonlyArray<TableColumn<T>>,
  rows: readonly T[],
  empty: VNode
): VNode {
  if (rows.length === 0) return html`<div class="empty">${empty}</div>`
  return html`
    <table class="rows">
      <caption class="unseen">${caption}</caption>
      <thead><tr>${columns.map(
        ({ title, isNumber }) => html`<th scope="col" class=${isNumber === true ? 'number' : null}>${title}</th>`
      )}</tr></thead>
      <tbody>${rows.map(
        row =>
          html`<tr>${columns.map(({ title, cell, isNumber }, at) =>
            at === 0
              ? html`<th scope="row">${cell(row)}</th>`
              : html`<td data-label=${title} class=${isNumber === true ? 'number' : null}>${cell(row)}</td>`
          )}</tr>`
      )}</tbody>
    </table>`
}

/** A part of a page that the page's program keeps as it is; without the program it is as it was when it was opened. */
export function live(id: string, content: VNode | null): VNode {
  return html`<div id=${id} data-live>${content}</div>`
}

/** The way to the next page of a list, and back to its beginning. */
export function pager(address: string, next: string | null, isFirst: boolean): VNode | null {
  if (next === null && isFirst) return null
  const to = (after: string): string =>
    `${address}${address.includes('?') ? '&' : '?'}after=${encodeURIComponent(after)}`
  return html`
    <nav class="pager" aria-label="Pages">
      ${isFirst ? null : html`<a href=${address}>Newest</a>`}
      ${next === null ? null : html`<a rel="next" href=${to(next)}>Older</a>`}
    </nav>`
}

/** Rows of a page of a list that is counted from its begin. */
export const ROWS = 50

/** How many rows stand before a page of such a list, by its query's `offset`. */
export function offsetOf(query: URLSearchParams): number {
  return Math.max(0, Math.trunc(Number(query.get('offset')) || 0))
}

/** The ways on from a page of such a list; `to` gives the address of one. */
export function offsetPager(to: (offset: number) => string, offset: number, isMore: boolean): VNode | null {
  if (offset === 0 && !isMore) return null
  return html`
    <nav class="pager" aria-label="Pages">
      ${offset === 0 ? null : html`<a href=${to(Math.max(0, offset - ROWS))}>Newer</a>`}
      ${isMore ? html`<a rel="next" href=${to(offset + ROWS)}>Older</a>` : null}
    </nav>`
}

/** Names with their values. */
export function facts(pairs: ReadonlyArray<readonly [string, ComponentChildren]>): VNode {
  return html`<dl class="facts">${pairs.map(([name, value]) => html`<div><dt>${name}</dt><dd>${value}</dd></div>`)}</dl>`
}

/** A number with what it counts. */
export function figure(name: string, value: string, beside: ComponentChildren = null): VNode {
  return html`<div class="figure"><dt>${name}</dt><dd>${value}${
    beside === null ? null : html`<span class="soft">${beside}</span>`
  }</dd></div>`
}

/** How a state looks: `good`, `wait`, `bad`, or `quiet` for what is over. */
export type Tone = 'good' | 'wait' | 'bad' | 'quiet'

/** A state in one word, told by more than its colour. */
export function badge(word: string, tone: Tone): VNode {
  return html`<span class=${`badge ${tone}`}>${word}</span>`
}

/** A field of a form. */
export interface FormField {
  readonly name: string
  readonly label: ComponentChildren
  readonly value?: string
  /** What is wrong with what was typed. */
  readonly problem?: string | undefined
  readonly hint?: ComponentChildren
  /** Attributes of the input: `type`, `required`, `maxlength`, … */
  readonly attributes?: Readonly<Record<string, string | number | boolean | null>>
}

/** A label with its input, the hint, and what is wrong. */
export function field({ name, label, value = '', problem, hint, attributes = {} }: FormField): VNode {
  const about = [hint === undefined ? null : `${name}-hint`, problem === undefined ? null : `${name}-problem`]
    .filter(id => id !== null)
    .join(' ')
  return html`
    <div class=${problem === undefined ? 'input' : 'input wrong'}>
      <label for=${name}>${label}</label>
      <input id=${name} name=${name} value=${value} ...${attributes} aria-invalid=${problem === undefined ? null : 'true'}
        aria-describedby=${about === '' ? null : about} />
      ${hint === undefined ? null : html`<p id=${`${name}-hint`} class="soft">${hint}</p>`}
      ${problem === undefined ? null : html`<p id=${`${name}-problem`} class="error">${problem}</p>`}
    </div>`
}

/**
 * The days that a list is about, from the first to before the second. The page's program takes them for the reader's own
 * and sends the moments at which they begin, which come back here; without it they are sent as they are, in UTC.
 */
export function days(from: string | null, to: string | null): VNode {
  const day = (name: string, label: string, at: string | null): VNode =>
    field({
      name,
      label: html`${label}<span data-utc> (UTC)</span>`,
      value: at?.slice(0, 10) ?? '',
      attributes: { type: 'date', 'data-moment': at ?? '' }
    })
  return html`${day('from', 'From', from)}${day('to', 'Before', to)}`
}

/** One of several values. */
export function choice(
  name: string,
  label: string,
  options: ReadonlyArray<readonly [value: string, text: string]>,
  chosen: string
): VNode {
  return html`
    <div class="input">
      <label for=${name}>${label}</label>
      <select id=${name} name=${name}>${options.map(
        ([value, text]) => html`<option value=${value} selected=${value === chosen}>${text}</option>`
      )}</select>
    </div>`
}

/** What another form of the page has chosen, which the address keeps when this one is sent. */
export function kept(query: URLSearchParams, ...names: readonly string[]): VNode[] {
  return names.flatMap(name => {
    const value = query.get(name)
    return value === null ? [] : [html`<input type="hidden" name=${name} value=${value} />`]
  })
}

/** Any of several values. */
export function ticks(
  name: string,
  legend: string,
  options: ReadonlyArray<readonly [value: string, text: string]>,
  chosen: readonly string[],
  hint: string
): VNode {
  return html`
    <fieldset class="ticks" aria-describedby=${`${name}-hint`}>
      <legend>${legend}</legend>
      ${options.map(
        ([value, text]) =>
          html`<label><input type="checkbox" name=${name} value=${value} checked=${chosen.includes(value)} /> ${text}</label>`
      )}
      <p id=${`${name}-hint`} class="soft">${hint}</p>
    </fieldset>`
}

/** A text to take away, with a button for it where the page's program runs. */
export function copyable(id: string, label: string, text: string): VNode {
  return html`
    <div class="copy">
      <label for=${id}>${label}</label>
      <div><output id=${id} tabindex="0"><code>${text}</code></output><button class="button small" type="button" data-copy=${id} hidden>Copy</button></div>
    </div>`
}

/** A button that changes something: a form with nothing to fill in. `what` says what, to those who only hear the button. */
export function action(
  name: string,
  values: Readonly<Record<string, string>>,
  options: { readonly what?: string; readonly isDanger?: boolean } = {}
): VNode {
  return html`
    <form method="post">
      ${Object.entries(values).map(([key, value]) => html`<input type="hidden" name=${key} value=${value} />`)}
      <button class=${`button small ${options.isDanger === true ? 'danger' : 'second'}`} type="submit">${name}${
        options.what === undefined ? null : html`<span class="unseen"> ${options.what}</span>`
      }</button>
    </form>`
}

/** What cannot be taken back, behind a step that says so. */
export function danger(summary: string, words: string, button: VNode): VNode {
  return html`<details class="danger-zone"><summary>${summary}</summary><p>${words}</p>${button}</details>`
}
