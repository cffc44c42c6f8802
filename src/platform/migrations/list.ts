import type { Migration } from '../migrations.ts'
import { merchants } from './0001-merchants.ts'
import { challenges } from './0002-challenges.ts'
import { proxies } from './0003-proxies.ts'
import { sandboxInvoices } from './0004-sandbox-invoices.ts'

/**
 * All migrations in the order in which they run. They are imported by name, not read from the folder, so that the built
 * package has them too.
 */
export const migrations: readonly Migration[] = [merchants, challenges, proxies, sandboxInvoices]
