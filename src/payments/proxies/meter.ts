import { Type, type Static } from 'typebox'
import type { MeterConfig } from '../../engine/checks/meter.ts'
import type { FiatText } from '../../engine/checks/money-text.ts'

const strict = { additionalProperties: false } as const
const msat = (description: string) => Type.Integer({ minimum: 0, maximum: 1_000_000_000_000, description })
const units = (description: string) => Type.Integer({ minimum: 0, maximum: 1_000_000_000, description })
const prices = {
  inputMsat: Type.Optional(msat('Millisatoshis of what goes in; 0 when left out.')),
  outputMsat: msat('Millisatoshis of what comes out, or of any unit.')
}
const member = (description: string) => Type.String({ minLength: 1, maxLength: 200, description })

/** Metering of an endpoint: `priceSats` buys a balance, which requests draw down by usage. */
export const EndpointMeter = Type.Object(
  {
    unit: Type.Optional(
      Type.String({ pattern: '^[a-z][a-z0-9 -]{0,31}$', description: 'What is counted, for people.' })
    ),
    ...prices,
    models: Type.Optional(
      Type.Record(Type.String({ minLength: 1, maxLength: 200 }), Type.Object(prices, strict), {
        description: 'Prices by the member `model` of the JSON body, instead of the two above; others are 400.'
      })
    ),
    per: Type.Optional(Type.Integer({ minimum: 1, maximum: 1_000_000_000, description: 'Units that a price is for.' })),
    usage: Type.Enum(['openai', 'anthropic', 'bytes', 'seconds', 'requests', 'events', 'member'], {
      description: 'How many units a request used; `member` is the one that usageMember names.'
    }),
    usageMember: Type.Optional(member('A member of the JSON response, such as usage.total.')),
    estimateMember: Type.Optional(member('A member of the JSON body that says the most units that come out.')),
    estimate: Type.Optional(units('Units that are reserved where the request does not say; 4096 when left out.'))
  },
  {
    ...strict,
    title: 'ProxyEndpointMeterInput',
    description: 'What one payment buys is a balance then, and its credential is shown until that is used up.'
  }
)
export const EndpointMeterView = Type.Object(EndpointMeter.properties, { title: 'ProxyEndpointMeter' })
export type EndpointMeter = Static<typeof EndpointMeter>

const read = new WeakMap<EndpointMeter, MeterConfig>()

export function meterOf(meter: EndpointMeter, bundle: number | FiatText): MeterConfig {
  let config = read.get(meter)
  if (config === undefined) {
    config = configOf(meter, bundle)
    read.set(meter, config)
  }
  return config
}

function configOf(meter: EndpointMeter, bundle: number | FiatText): MeterConfig {
  const { usage, models, estimateMember } = meter
  const both = ({ inputMsat = 0, outputMsat }: Pick<EndpointMeter, 'inputMsat' | 'outputMsat'>) => ({
    input: inputMsat,
    output: outputMsat
  })
  return {
    unit: meter.unit ?? 'unit',
    bundle,
    prices:
      models === undefined
        ? both(meter)
        : {
            by: { json: 'model' },
            of: Object.fromEntries(Object.entries(models).map(([name, each]) => [name, both(each)])),
            else: 'refuse'
          },
    per: meter.per ?? 1,
    usage: usage === 'member' ? { json: meter.usageMember ?? 'usage' } : usage,
    estimate: { else: meter.estimate ?? 4096, ...(estimateMember === undefined ? {} : { json: [estimateMember] }) }
  }
}
