import { demoOperations } from './operations.ts'

/** Opens the demo that the default file sells. */
export function openDemo() {
  return { operations: demoOperations(), jobs: [], close: () => {} }
}
