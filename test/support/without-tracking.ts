// Loaded into each test's process before the test. What tap tracks there is more than a test needs and costs it up to
// half of its time.
import asyncHooks from 'node:async_hooks'
import module from 'node:module'

// Types are stripped in place, so lines and columns are the sources' own. tap still asks Node for source maps,
// which then reads and parses those of every package: a third of what it takes to load the gateway.
process.setSourceMapsEnabled(false)

// tap follows every promise from its making to its collection, to tell which subtest an error belongs to that no handler
// caught. Without that such an error ends the file's process, which fails the file and names the place just as well.
const { createHook } = asyncHooks
asyncHooks.createHook = callbacks => {
  const isDomains = new Error('who asks').stack?.includes('/async-hook-domain/') === true
  return createHook(isDomains ? {} : callbacks)
}
module.syncBuiltinESMExports()
