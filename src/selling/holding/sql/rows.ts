import {
  amount,
  flag,
  integer,
  moment,
  optional,
  records,
  text,
  together,
  type Column,
  type Records
} from '../../../platform/database/rows.ts'
import type {
  AmbiguousLease,
  Challenge,
  ChallengeSource,
  ClaimScheme,
  KeptWording,
  Listed,
  RemadeWording,
  RevokedKind,
  Sale,
  Wording
} from '../challenge.ts'

const saleColumns = {
  merchantId: optional(text()),
  source: text<ChallengeSource>(),
  amountSats: amount(),
  asked: optional(text()),
  createdAt: moment(),
  clientKey: text()
}
export const sales: Records<Sale> = records(saleColumns)

const keptWording: Records<KeptWording> = records({ macaroon: text(), request: optional(text()) })
const remadeWording: Records<RemadeWording> = records({
  location: text('macaroon_location'),
  caveatPath: optional(text())
})

/** No macaroon if it is remade. */
const wording: Column<Wording> = {
  name: null,
  names: [...keptWording.names, ...remadeWording.names],
  read: row => (row['macaroon'] === '' ? remadeWording.read(row) : keptWording.read(row)),
  write: (sql, value, _name, sent) => {
    Object.assign(sent, 'macaroon' in value ? keptWording.write(sql, value) : remadeWording.write(sql, value))
  }
}

/** Rows of `challenges`. These statements write only what the members' narrower types allow. */
export const challengeRows: Records<Challenge> = records({
  ...saleColumns,
  paymentHash: text(),
  service: text(),
  price: optional(text()),
  merchantId: optional(text()),
  proxyId: optional(text()),
  place: text(),
  resource: text(),
  path: text(),
  method: text(),
  query: text(),
  digest: optional(text()),
  binding: text(),
  payment: together({ id: text('payment_id'), realm: text(), expires: text('payment_expires') }),
  wording,
  tokenId: text(),
  invoice: text(),
  network: text(),
  chargeId: text(),
  providerSlot: text(),
  providerKind: text(),
  idempotencyKey: optional(text()),
  description: text(),
  expiresAt: moment(),
  tokenExpiresAt: moment(),
  state: text<'unspent' | 'leased' | 'spent'>(),
  scheme: optional(text<ClaimScheme>()),
  paidAt: optional(moment()),
  settledAt: optional(moment()),
  leaseId: optional(text()),
  leaseUntil: optional(moment()),
  leaseIsFinal: flag('lease_final')
})

export const claimCounts = records({ verifications: integer(), returns: integer('client_gone') })

/** Recent invoices one by one, and one row with the count of older ones. */
export interface OpenRow {
  readonly paymentHash: string | null
  readonly isBound: boolean
  readonly invoices: number
  readonly firstExpiry: number
}
export const openRows: Records<OpenRow> = records({
  paymentHash: optional(text()),
  isBound: flag('is_bound'),
  invoices: integer(),
  firstExpiry: moment()
})

export const ambiguousLeases: Records<AmbiguousLease> = records({
  paymentHash: text(),
  source: text<ChallengeSource>(),
  merchantId: optional(text()),
  proxyId: optional(text()),
  method: text(),
  path: text(),
  amountSats: amount(),
  gateway: text('lease_gateway'),
  lapsedAt: moment()
})

export const revocationList: Records<Listed> = records({
  kind: text<RevokedKind>(),
  id: text(),
  at: moment('revoked_at')
})
