/** An account as the operator sees it, as far as it is shown. */
export interface AdminMerchantView {
  readonly merchantId: number
  readonly name: string
  readonly email: string
  readonly planTier: string
  readonly subscriptionStatus: string | null
  readonly currentPeriodEnd: string | null
  readonly isActive: boolean
  readonly hasPrimaryKey: boolean
  readonly hasAlternateKey: boolean
  readonly hasWebhookUrl: boolean
}
