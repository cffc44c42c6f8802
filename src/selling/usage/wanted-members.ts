export interface Node {
  readonly names: Map<number, { readonly name: Buffer; readonly node: Node }[]>
  /** Any other member or item. */
  other: Node | null
  /** Slot of its value, or -1. */
  slot: number
  isContent: boolean
  /** Nodes with a slot, here and below: a duplicate name clears their values. */
  readonly below: Node[]
  /** The last text, repeated by most events. */
  lastBytes: Buffer
  lastText: string
}

export class WantedMembers {
  readonly root = newNode()
  readonly #slots = new Map<string, number>()
  readonly #content: readonly string[]

  /**
   * `slots`: dotted paths, such as `usage.total`; `*` matches members and items not named beside it. Paths separated by
   * `|` share a slot. `content`: paths whose filled values are content.
   */
  constructor(slots: readonly string[], content: readonly string[] = []) {
    this.#content = content
    for (const [slot, paths] of slots.entries()) {
      this.#slots.set(paths, slot)
      for (const path of paths.split('|')) this.#add(path, slot)
    }
    for (const path of content) this.#add(path, -1).isContent = true
  }

  get size(): number {
    return this.#slots.size
  }

  get hasContent(): boolean {
    return this.#content.length > 0
  }

  #add(path: string, slot: number): Node {
    let node = this.root
    const nodes: Node[] = []
    for (const name of path.split('.')) {
      node = name === '*' ? (node.other ??= newNode()) : named(node, Buffer.from(name))
      nodes.push(node)
    }
    if (slot >= 0) {
      node.slot = slot
      for (const each of nodes) each.below.push(node)
    }
    return node
  }
}

const NOTHING = Buffer.alloc(0)

function newNode(): Node {
  return { names: new Map(), other: null, slot: -1, isContent: false, below: [], lastBytes: NOTHING, lastText: '' }
}

function named(parent: Node, name: Buffer): Node {
  const same = parent.names.get(name.length) ?? []
  parent.names.set(name.length, same)
  let found = same.find(each => each.name.equals(name))
  if (found === undefined) same.push((found = { name, node: newNode() }))
  return found.node
}

export function find(node: Node, bytes: Buffer, from: number, to: number): Node | null {
  const same = node.names.get(to - from)
  if (same === undefined) return null
  for (const { name, node: found } of same) {
    let at = 0
    while (at < name.length && name[at] === bytes[from + at]) at++
    if (at === name.length) return found
  }
  return null
}

export function itemOf(node: Node, index: number): Node | null {
  if (node.names.size === 0) return node.other
  const name = Buffer.from(String(index))
  return find(node, name, 0, name.length) ?? node.other
}
