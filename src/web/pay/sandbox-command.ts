/** Invoices are alphanumeric: only the JSON needs shell quotes. */
export function sandboxPayCommand(publicUrl: string, invoice: string): string {
  return `curl ${publicUrl}/sandbox/pay -H 'Content-Type: application/json' -d '{"invoice":"${invoice}"}'`
}
