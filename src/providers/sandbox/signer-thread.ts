/** The thread in which the sandbox signs its invoices; `signer.ts` starts it. */
import { parentPort, workerData } from 'node:worker_threads'
import { encodeInvoice, type InvoiceTerms } from '../../lightning/bolt11.ts'

/** One invoice to be written and signed. */
export interface ToThread {
  readonly id: number
  readonly terms: InvoiceTerms
}

/** The invoice, or why it could not be written. */
export type FromThread =
  | { readonly id: number; readonly invoice: string }
  | { readonly id: number; readonly error: string }

if (parentPort === null) throw new Error('Invoices are signed in a worker thread only')
const port = parentPort
// The one who starts this thread passes exactly this (signer.ts).
const privateKey = workerData as Uint8Array

port.on('message', ({ id, terms }: ToThread) => {
  port.postMessage(answer(id, terms))
})

function answer(id: number, terms: InvoiceTerms): FromThread {
  try {
    return { id, invoice: encodeInvoice(terms, privateKey) }
  } catch (error) {
    return { id, error: error instanceof Error ? error.message : String(error) }
  }
}
