import type { VNode } from 'preact'
import { badge, type Tone } from './parts.ts'

const TONES: Readonly<Record<string, Tone>> = {
  paid: 'good',
  confirmed: 'good',
  processing: 'wait',
  unpaid: 'wait',
  pending: 'wait',
  underpaid: 'bad',
  failed: 'bad'
}

export function status(name: string): VNode {
  return badge(name, TONES[name] ?? 'quiet')
}
