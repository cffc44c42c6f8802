import { readlinkSync, watch as watchFolder } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { basename, dirname, join, resolve, sep } from 'node:path'
import type { Clock, Timer } from '../../platform/system/clock.ts'

export interface WatchOptions {
  readonly file: string
  /** Further files of the configuration, such as secrets and certificates; read again after each change. */
  readonly others?: () => readonly string[]
  readonly clock: Clock
  /** Called after a file's text has changed (`saved`) or on SIGHUP (`signal`), never concurrently. */
  readonly onChange: (reason: 'saved' | 'signal') => void | Promise<void>
  readonly onError: (error: Error) => void
  /** Milliseconds of quiet after the last event before the files are read. */
  readonly quiet?: number
  readonly signals?: SignalSource
  readonly watch?: WatchFolder
  readonly read?: (file: string) => Promise<string>
}

/** `name`: the changed entry; null where the system does not say. */
type WatchFolder = (
  folder: string,
  onEvent: (name: string | null) => void,
  onError: (error: Error) => void
) => { close(): void }

interface SignalSource {
  on(name: 'SIGHUP', run: () => void): unknown
  off(name: 'SIGHUP', run: () => void): unknown
}

/** `close` may be called twice. */
interface ConfigWatch {
  close(): void
}

/**
 * Watches the files of a configuration, and the process for SIGHUP. Watches folders: editors rename a new file over the
 * old one, and mounted configurations swap a symbolic link. Compares texts, so that touching a file or a neighbor
 * reloads nothing. Follows links, and watches the folders of each link and of its target. Ignores other entries of a
 * folder: a log beside the configuration changes all the time.
 */
export async function watchConfig(options: WatchOptions): Promise<ConfigWatch> {
  const watcher = new Watcher(options)
  await watcher.start()
  return watcher
}

class Watcher implements ConfigWatch {
  readonly #file: string
  readonly #options: WatchOptions
  readonly #read: (file: string) => Promise<string>
  readonly #onSignal = (): void => {
    this.#request('signal')
  }
  readonly #known = new Map<string, string>()
  #timer: Timer | undefined
  readonly #folders = new Map<string, { close(): void }>()
  /** The entries of each folder that the files depend on. */
  #entries = new Map<string, Set<string>>()
  #wanted: 'saved' | 'signal' | undefined
  #busy = false
  #closed = false

  constructor(options: WatchOptions) {
    this.#file = resolve(options.file)
    this.#options = options
    this.#read = options.read ?? (file => readFile(file, 'utf8'))
  }

  async start(): Promise<void> {
    const { signals = process } = this.#options
    signals.on('SIGHUP', this.#onSignal)
    this.#follow()
    await this.#changed()
  }

  close(): void {
    this.#closed = true
    this.#timer?.cancel()
    for (const watched of this.#folders.values()) watched.close()
    this.#folders.clear()
    const { signals = process } = this.#options
    signals.off('SIGHUP', this.#onSignal)
  }

  #follow(): void {
    const { watch = systemWatch, onError } = this.#options
    this.#entries = entriesOf(this.#files())
    for (const [folder, watched] of this.#folders) {
      if (this.#entries.has(folder)) continue
      watched.close()
      this.#folders.delete(folder)
    }
    for (const folder of this.#entries.keys()) {
      if (this.#folders.has(folder)) continue
      try {
        const watched = watch(
          folder,
          name => {
            if (name === null || this.#entries.get(folder)?.has(name) === true) this.#settle()
          },
          onError
        )
        this.#folders.set(folder, watched)
      } catch (error) {
        // SIGHUP still works on a system without watches, or out of them.
        onError(new Error(`${folder} is not watched for changes; use SIGHUP`, { cause: error }))
      }
    }
  }

  /** One save is several events; reads the file after the last. */
  #settle(): void {
    if (this.#closed) return
    this.#timer?.cancel()
    this.#timer = this.#options.clock.after(this.#options.quiet ?? 100, () => {
      this.#follow()
      this.#request('saved')
    })
  }

  #request(reason: 'saved' | 'signal'): void {
    if (this.#closed) return
    if (this.#wanted !== 'signal') this.#wanted = reason
    if (this.#busy) return
    this.#busy = true
    this.#serve().catch(error => {
      this.#options.onError(error instanceof Error ? error : new Error(String(error)))
    })
  }

  async #serve(): Promise<void> {
    try {
      while (this.#wanted !== undefined && !this.#closed) {
        const reason = this.#wanted
        this.#wanted = undefined
        const changed = await this.#changed()
        if (this.#closed) return
        if (!changed && reason !== 'signal') continue
        await this.#options.onChange(reason)
        this.#follow()
      }
    } finally {
      this.#busy = false
    }
  }

  #files(): string[] {
    return [this.#file, ...(this.#options.others?.() ?? []).map(file => resolve(file))]
  }

  async #changed(): Promise<boolean> {
    let changed = false
    for (const file of this.#files()) {
      let text: string
      try {
        text = await this.#read(file)
      } catch {
        // Between the two halves of a rename; the second triggers its own event.
        continue
      }
      const known = this.#known.get(file)
      this.#known.set(file, text)
      changed ||= known !== undefined && text !== known
    }
    return changed
  }
}

const systemWatch: WatchFolder = (folder, onEvent, onError) => {
  const watcher = watchFolder(folder, { persistent: false }, (_event, name) => {
    onEvent(name)
  })
  watcher.on('error', onError)
  return watcher
}

/** The folders of files, of the links that lead to them, and of their targets, with the entries to watch in each. */
function entriesOf(files: readonly string[]): Map<string, Set<string>> {
  const entries = new Map<string, Set<string>>()
  const add = (path: string): void => {
    const folder = dirname(path)
    entries.set(folder, (entries.get(folder) ?? new Set()).add(basename(path)))
  }
  for (const file of files) {
    add(file)
    let steps = file.split(sep).slice(1)
    let at: string = sep
    // As many links as Linux follows.
    for (let links = 0; steps.length > 0 && links <= 40;) {
      const [step = '', ...rest] = steps
      const path = join(at, step)
      const target = targetOf(path)
      if (target === null) {
        at = path
        steps = rest
      } else {
        add(path)
        steps = [...resolve(at, target).split(sep).slice(1), ...rest]
        at = sep
        links++
      }
    }
    add(at)
  }
  return entries
}

function targetOf(path: string): string | null {
  try {
    return readlinkSync(path)
  } catch {
    return null
  }
}
