/** Who may have asked for an invoice, and is told what became of it. A hash that nobody knows does nothing. */
export interface InvoiceListener {
  /** It was paid. Looks it up before it resolves, and should not reject. */
  paid(paymentHash: string): Promise<void>
  /** It became something else, such as paid in part; likewise. */
  changed?(paymentHash: string): Promise<void>
}

/**
 * News of invoices that are paid within this process, which the sandbox's are. It exists before those who are told: a
 * refund over the sandbox may pay an invoice of somebody else here, so that neither can be made after the other. Each
 * adds itself as it is opened, before anything is paid.
 */
export class InvoiceNews {
  readonly #listeners: InvoiceListener[] = []
  readonly #begun = Promise.withResolvers<void>()

  listen(listener: InvoiceListener): void {
    this.#listeners.push(listener)
  }

  /**
   * Those who listen can write down what follows, jobs among it: what is told before waits for this, since a gateway
   * takes requests a moment earlier, and nobody tells it again. More often than once is harmless.
   */
  begin(): void {
    this.#begun.resolve()
  }

  /** Resolves once all have looked it up. */
  async paid(paymentHash: string): Promise<void> {
    await this.#begun.promise
    await Promise.all(this.#listeners.map(listener => listener.paid(paymentHash)))
  }

  async changed(paymentHash: string): Promise<void> {
    await this.#begun.promise
    await Promise.all(this.#listeners.map(listener => listener.changed?.(paymentHash)))
  }
}
