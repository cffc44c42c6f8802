import type { ErrorEntry } from './entry.ts'

/** What can be wrong in `gateway.yaml`: told by `check`, at the start and at a reload, with file, line and column. */
export const configurationErrors = {
  BG_CONFIG_UNREADABLE: {
    cause: 'The file cannot be opened.',
    cure: 'Name a file that the gateway may read with `--config`, or stand in its folder.'
  },
  BG_CONFIG_TOO_LARGE: {
    cause: 'The file has more characters, values, aliases or levels than are read.',
    cure: 'Is it the right file? Thousands of routes fit; what is generated can be split over several gateways.'
  },
  BG_CONFIG_SYNTAX: {
    cause:
      'The text is no YAML, or uses a part of it that is not taken here: tabs, tags, a second document, keys that are no text.',
    cure: 'Mend the line that is named, or the one before it; a colon, a quote or the indentation is mostly what is missing.'
  },
  BG_CONFIG_EMPTY: {
    cause: 'The file holds nothing.',
    cure: 'Write a route into it; `boltgate init` asks what to sell and writes one.'
  },
  BG_CONFIG_KEY_TWICE: {
    cause: 'A key or an item stands twice in one place, so that one of them would be lost.',
    cure: 'Keep one of the two.'
  },
  BG_CONFIG_VARIABLE: {
    cause: 'A variable of the environment is not set or empty, or `${…}` is not written right.',
    cure: 'Set the variable, or give a default: `${NAME:-default}`. `$${` is a plain `${`.'
  },
  BG_CONFIG_VALUE: {
    cause: 'A setting has a value that it does not take.',
    cure: 'The message says what is allowed; docs/configuration.md has every setting.'
  },
  BG_CONFIG_UNKNOWN_KEY: {
    cause: 'There is no such setting at this place, or no longer.',
    cure: 'Take the name that the message proposes; look at the indentation.'
  },
  BG_CONFIG_MISSING_KEY: {
    cause: 'A required setting is not there.',
    cure: 'Add it; the message says what it may hold.'
  },
  BG_CONFIG_REFERENCE: {
    cause: 'A chain, policy, upstream or internal upstream is named that nothing defines.',
    cure: 'Define it, or take one of the names in the message.'
  },
  BG_CONFIG_UPSTREAM: {
    cause: 'An upstream has no target, several, or settings that do not belong to its target.',
    cure: 'Give exactly one of `url`, `proxy` and `internal`; other settings stand beside `url` only.'
  },
  BG_CONFIG_FILE: {
    cause: 'A file that the configuration names, such as a certificate, cannot be read.',
    cure: "Mind that paths start from the folder of the configuration, and that the gateway's user must be able to read it."
  },
  BG_CONFIG_CONFLICT: {
    cause: 'Two settings contradict each other, or one needs another that is not there.',
    cure: 'Change one of them as the message says.'
  },
  BG_CONFIG_PRODUCTION: {
    cause: 'A setting is good for trying out, and refused in production because money, keys or links would be at risk.',
    cure: 'Set what the message asks for; to try out, say `mode: development`.'
  },
  BG_CONFIG_PROVIDER_KEY: {
    cause: 'The key of a payment provider is missing or has not the form of its kind.',
    cure: 'Copy the whole key from the provider; of a node it is an address, such as `lndconnect://` for lnd.'
  },
  BG_CONFIG_PROVIDER_RECEIVES: {
    cause: 'The kind of a provider can receive payments and pay nothing out, so that refunds through it are refused.',
    cure: 'Nothing, where nobody is to be refunded; else name a kind that pays out.'
  },
  BG_ROUTE_TWICE: {
    cause: 'Two routes take the same requests, or have the same name.',
    cure: 'Remove one, or give them different hosts, methods, paths or names.'
  },
  BG_ROUTE_MISMATCH: {
    cause: 'A route asks for what its paths, its chain or its upstream cannot do.',
    cure: 'The message names both sides; change one.'
  },
  BG_CHAIN_ENTRY: {
    cause: 'An entry of a chain is not a plugin name, or a plugin name with its settings.',
    cure: 'Write `- throttle`, or `- { throttle: { policy: global } }` with `when`, `disabled` and `mode` beside the name.'
  },
  BG_CHAIN_ORDER: {
    cause: 'A plugin stands before one whose work it needs, or behind one that ends the chain.',
    cure: 'Change the order as the message says.'
  },
  BG_CHAIN_SALE: {
    cause: 'A priced route runs through a chain that would serve without payment, or take payment and not serve.',
    cure: 'Take `chain: paid`, or put `credential` and `challenge` into the chain without a condition.'
  },
  BG_CHAIN_OBSERVES: {
    cause: 'Warning: what asks for payment only observes, so every request is served for nothing.',
    cure: 'Take `mode: observe` away when you have seen enough.'
  },
  BG_CHAIN_UNTHROTTLED: {
    cause: 'Warning: nothing limits how many invoices anybody can have made.',
    cure: 'Put `throttle` before `challenge`.'
  },
  BG_CHAIN_CALLER: {
    cause: 'An operation stands behind a chain that does not say who calls, or at what price.',
    cure: 'Take a chain with the plugin that the message names, such as `auth`.'
  },
  BG_ROUTE_MISSING: {
    cause:
      'Warning: the file has routes for some operations of an API of the gateway and none for others; a release may have brought new ones.',
    cure: 'Name the preset in `use`, or write routes for what is to be served.'
  },
  BG_PLUGIN_UNKNOWN: {
    cause: 'A chain names a plugin that there is not.',
    cure: 'Take a name from the message; a plugin of your own is named by its path, such as `./my-plugin.ts`.'
  },
  BG_PLUGIN_FILE: {
    cause: 'The file of a plugin is not there, cannot be loaded, or exports no plugin.',
    cure: 'Export what `definePlugin` gives by default, from an ES module; docs/plugins.md has one to copy.'
  },
  BG_PLUGIN_SETUP: {
    cause:
      'The `setup` of a plugin threw an error for a route, gave no hooks or unknown ones, or did not settle within 10 seconds; or `uses` names a service that there is not.',
    cure: "The message says what would be right, or has the plugin's own words: it is a setting of it, or a fault in it."
  }
} as const satisfies Record<string, ErrorEntry>
