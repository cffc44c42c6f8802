import { t } from '../../engine/formats/language.ts'
import type { ComponentChildren, VNode } from 'preact'
import { html } from '../kit/document.ts'
import type { PageRequest } from './page.ts'

/** Title and cell of a column; numbers are aligned right. */
export type TableColumn<T> = readonly [title: string, cell: (row: T) => ComponentChildren, kind?: 'number']

/**
 * A table; rows become cards where its columns have no room. `empty` replaces missing rows and says what to do. Texts of
 * other people wrap within their cell and end after three lines.
 */
export function table<T>(
  caption: string,
  columns: ReadonlyArray<TableColumn<T>>,
  rows: readonly T[],
  empty: VNode
): VNode {
  if (rows.length === 0) return html`<div class="empty">${empty}</div>`
  return html`
    <div class="list"><table class=${columns.length > 6 ? 'rows dense' : 'rows'}>
      <caption class="unseen">${t(caption)}</caption>
      <thead><tr>${columns.map(([title, , kind = null]) => html`<th scope="col" class=${kind}>${t(title)}</th>`)}</tr></thead>
      <tbody>${rows.map(
        row =>
          html`<tr>${columns.map(([title, cell, kind], at) =>
            at === 0
              ? html`<th scope="row" dir="auto">${cellOf(cell(row))}</th>`
              : kind === 'number'
                ? html`<td data-label=${t(title)} class="number">${cell(row)}</td>`
                : html`<td data-label=${t(title)} dir="auto">${cellOf(cell(row))}</td>`
          )}</tr>`
      )}</tbody>
    </table></div>`
}

function cellOf(content: ComponentChildren): ComponentChildren {
  return typeof content === 'string' ? html`<span class="text">${content}</span>` : content
}

/** Part that the script keeps current. */
export function live(id: string, content: VNode | null): VNode {
  return html`<div id=${id} data-live>${content}</div>`
}

export function facts(pairs: ReadonlyArray<readonly [string, ComponentChildren]>): VNode {
  return html`<dl class="facts">${pairs.map(([name, value]) => html`<div><dt>${t(name)}</dt><dd>${value}</dd></div>`)}</dl>`
}

export function figure(name: string, value: string, beside: ComponentChildren = null): VNode {
  return html`<div class="figure"><dt>${t(name)}</dt><dd>${value}${
    beside === null ? null : html`<span class="soft">${beside}</span>`
  }</dd></div>`
}

export type Tone = 'good' | 'wait' | 'bad' | 'quiet'

/** A state in one word; not by color alone. */
export function badge(word: string, tone: Tone): VNode {
  return html`<span class=${`badge ${tone}`}>${t(word)}</span>`
}

export interface InputOptions {
  /** Where another form of the page has the same name; default the name. */
  readonly id?: string
  readonly value?: string | number | null | undefined
  readonly hint?: ComponentChildren
  readonly problem?: string | undefined
  /** Makes it a select. */
  readonly options?: Choices
  /** Attributes of the element, which has several lines with `rows`. */
  readonly [attribute: string]: unknown
}

/**
 * Makes the fields of the form with this `do`, empty for a page's only form: with what was typed, or the known value,
 * and the error. Forms of a page may share names; the API names entries of lists, which `at` matches.
 */
export function fieldsOf({ form, problem }: Pick<PageRequest, 'form' | 'problem'>, does = '') {
  const isSent = form.text('do') === does
  return (
    name: string,
    label: ComponentChildren,
    { at, value, ...more }: InputOptions & { readonly at?: RegExp } = {}
  ): VNode => {
    const errors = isSent ? Object.entries(problem?.fields ?? {}) : []
    return input(name, label, {
      id: does === '' ? name : `${does}-${name}`,
      // A secret is not shown again.
      value: isSent && more['type'] !== 'password' ? (form.get(name) ?? value) : value,
      problem: errors.find(([member]) => at?.test(member) ?? lastName(member) === name)?.[1],
      ...more
    })
  }
}

/** `priceSats` of `endpoints[0].priceSats`, `paths` of `paths[3]`. */
export function lastName(member: string): string {
  return (member.split('.').at(-1) ?? '').split('[', 1)[0] ?? ''
}

/** A text of the sources; elements are translated already. */
function shownText(text: ComponentChildren): ComponentChildren {
  return typeof text === 'string' ? t(text) : text
}

export function input(name: string, label: ComponentChildren, given: InputOptions = {}): VNode {
  const { id = name, value: known, hint, problem, options, ...attributes } = given
  const value = String(known ?? '')
  const about = [hint === undefined ? null : `${id}-hint`, problem === undefined ? null : `${id}-problem`]
    .filter(each => each !== null)
    .join(' ')
  const more = {
    ...attributes,
    'aria-invalid': problem === undefined ? null : 'true',
    'aria-describedby': about === '' ? null : about
  }
  return html`
    <div class=${problem === undefined ? 'input' : 'input wrong'}>
      <label for=${id}>${shownText(label)}</label>
      ${
        options !== undefined
          ? html`<select id=${id} name=${name} ...${more}>${eachOf(options, (option, text) => html`<option value=${option} selected=${option === value}>${text}</option>`)}</select>`
          : 'rows' in attributes
            ? html`<textarea id=${id} name=${name} spellcheck="false" ...${more}>${value}</textarea>`
            : html`<input id=${id} name=${name} value=${value} ...${more} />`
      }
      ${hint === undefined ? null : html`<p id=${`${id}-hint`} class="soft">${shownText(hint)}</p>`}
      ${problem === undefined ? null : html`<p id=${`${id}-problem`} class="error">${t(problem)}</p>`}
    </div>`
}

export function searchField(label: string, value: string | null, name = 'text'): VNode {
  return input(name, label, { value, type: 'search', maxlength: 200 })
}

/**
 * Filter of days, the second exclusive. The script converts the reader's local days to timestamps; without it they are
 * UTC.
 */
export function days(from: string | null, to: string | null): VNode {
  const day = (name: string, label: string, at: string | null): VNode =>
    input(name, html`${t(label)}<span data-utc> (UTC)</span>`, {
      value: at?.slice(0, 10),
      type: 'date',
      'data-moment': at ?? ''
    })
  return html`${day('from', 'From', from)}${day('to', 'Before', to)}`
}

/** Values of a select or checkboxes; a value alone is its own text. */
export type Choices = ReadonlyArray<string | readonly [value: string, text: string]>

function eachOf<T>(options: Choices, show: (value: string, text: string) => T): T[] {
  return options.map(option => (typeof option === 'string' ? show(option, t(option)) : show(option[0], t(option[1]))))
}

/** Hidden inputs that keep the query's other filters. */
export function kept(query: URLSearchParams, ...names: readonly string[]): VNode[] {
  return names.flatMap(name => {
    const value = query.get(name)
    return value === null ? [] : [html`<input type="hidden" name=${name} value=${value} />`]
  })
}

export function ticks(name: string, legend: string, options: Choices, chosen: readonly string[], hint: string): VNode {
  return html`
    <fieldset class="ticks" aria-describedby=${`${name}-hint`}>
      <legend>${t(legend)}</legend>
      ${eachOf(options, (value, text) => html`<label><input type="checkbox" name=${name} value=${value} checked=${chosen.includes(value)} /> ${text}</label>`)}
      <p id=${`${name}-hint`} class="soft">${t(hint)}</p>
    </fieldset>`
}

/** Text with a copy button where scripts run. */
export function copyable(id: string, label: string, text: string): VNode {
  return html`
    <div class="copy">
      <label for=${id}>${t(label)}</label>
      <div><output id=${id} tabindex="0"><code>${text}</code></output><button class="button small" type="button" data-copy=${id} hidden>Copy</button></div>
    </div>`
}

/** A form with only a button. `what`: its description for screen readers. */
export function action(
  name: string,
  values: Readonly<Record<string, string>>,
  options: { readonly what?: string; readonly isDanger?: boolean } = {}
): VNode {
  return html`
    <form method="post">
      ${Object.entries(values).map(([key, value]) => html`<input type="hidden" name=${key} value=${value} />`)}
      <button class=${`button small ${options.isDanger === true ? 'danger' : 'second'}`} type="submit">${t(name)}${
        options.what === undefined ? null : html`<span class="unseen"> ${t(options.what)}</span>`
      }</button>
    </form>`
}

/** A guided change: what to check, what to do, and what follows. */
export function steps(list: ReadonlyArray<readonly [title: string, content: ComponentChildren]>): VNode {
  return html`<ol class="steps">${list.map(([title, content]) => html`<li><h3>${t(title)}</h3>${content}</li>`)}</ol>`
}

/** Confirmation step of an irreversible action. */
export function danger(summary: string, words: string, button: VNode): VNode {
  return html`<details class="danger-zone"><summary>${t(summary)}</summary><p>${t(words)}</p>${button}</details>`
}
