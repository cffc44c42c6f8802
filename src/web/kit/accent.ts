/**
 * The seller's color in place of the pages' green. It is darkened, or lightened in a dark scheme, until text is
 * readable on every background (WCAG 2.2, 1.4.3: 4.5 to 1).
 */

/** Red, green and blue from 0 to 255. */
type Colour = readonly [number, number, number]

const READABLE = 4.6
const WHITE: Colour = [255, 255, 255]
const BLACK: Colour = [0, 0, 0]
const LIGHT = { page: [245, 244, 239], card: WHITE } as const
const DARK = { page: [15, 18, 17], card: [24, 28, 26] } as const

export function accentStyle(colour: string): string {
  const [, red, green, blue] = /^#([0-9a-f]{2})([0-9a-f]{2})([0-9a-f]{2})$/i.exec(colour) ?? []
  if (red === undefined || green === undefined || blue === undefined) return ''
  const chosen: Colour = [parseInt(red, 16), parseInt(green, 16), parseInt(blue, 16)]
  return [
    `:root{${variables(chosen, BLACK, LIGHT, 0.1)}}`,
    `@media (prefers-color-scheme:dark){:root{${variables(chosen, WHITE, DARK, 0.18)}}}`
  ].join('')
}

function variables(
  chosen: Colour,
  towards: Colour,
  { page, card }: { readonly page: Colour; readonly card: Colour },
  tint: number
): string {
  const wash = mixed(card, chosen, tint)
  const accent = readable(chosen, towards, [page, card, wash])
  const on = contrast(accent, WHITE) >= READABLE ? WHITE : readable(accent, BLACK, [accent])
  return [
    `--accent:${text(accent)}`,
    `--accent-strong:${text(mixed(accent, towards, 0.2))}`,
    `--on-accent:${text(on)}`,
    `--wash:${text(wash)}`
  ].join(';')
}

/** The color with the smallest change that is readable on all of these. */
function readable(colour: Colour, towards: Colour, under: readonly Colour[]): Colour {
  for (let share = 0; share < 1; share += 0.02) {
    const moved = mixed(colour, towards, share)
    if (under.every(each => contrast(moved, each) >= READABLE)) return moved
  }
  return towards
}

function mixed(one: Colour, other: Colour, share: number): Colour {
  const part = (at: 0 | 1 | 2): number => Math.round(one[at] + (other[at] - one[at]) * share)
  return [part(0), part(1), part(2)]
}

/** Contrast ratio (WCAG 2.2). */
export function contrast(one: Colour, other: Colour): number {
  const [darker, lighter] = [luminance(one), luminance(other)].sort((a, b) => a - b) as [number, number]
  return (lighter + 0.05) / (darker + 0.05)
}

function luminance([red, green, blue]: Colour): number {
  const linear = (part: number): number => {
    const share = part / 255
    return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4
  }
  return 0.2126 * linear(red) + 0.7152 * linear(green) + 0.0722 * linear(blue)
}

function text(colour: Colour): string {
  return `#${colour.map(part => part.toString(16).padStart(2, '0')).join('')}`
}
