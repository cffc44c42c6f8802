/** Invoices hold letters and digits only; nothing in the line needs to be quoted for a shell but the JSON. */
export function sandboxPayCommand(publicUrl: string, invoice: string): string {
  return `curl ${publicUrl}/sandbox/pay -H 'Content-Type: application/json' -d '{"invoice":"${invoice}"}'`
}
