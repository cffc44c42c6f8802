import assert from 'node:assert/strict'
import { test } from 'node:test'
import { apertureConfiguration, apertureSettings } from '../peers/aperture.ts'

const whole = {
  BOLTGATE_APERTURE: '/opt/aperture',
  BOLTGATE_APERTURE_CONFIG: '/opt/aperture.yaml',
  BOLTGATE_APERTURE_DATABASE: '/opt/aperture.db',
  BOLTGATE_APERTURE_TOKEN: `L402 ${'AgEE'.repeat(40)}==:${'0f'.repeat(32)}`
}

test('Aperture is taken from the environment, and what is missing of it is named', () => {
  assert.deepEqual(apertureSettings(whole), {
    binary: '/opt/aperture',
    configuration: '/opt/aperture.yaml',
    database: '/opt/aperture.db',
    authorization: whole.BOLTGATE_APERTURE_TOKEN
  })
  assert.equal(apertureSettings({}), 'not given by BOLTGATE_APERTURE (benchmarks/README.md)')
  assert.equal(
    apertureSettings({ ...whole, BOLTGATE_APERTURE_CONFIG: '', BOLTGATE_APERTURE_TOKEN: undefined }),
    'given by BOLTGATE_APERTURE, but without BOLTGATE_APERTURE_CONFIG, BOLTGATE_APERTURE_TOKEN'
  )
  for (const token of ['L402 abc', `Bearer abc:${'0f'.repeat(32)}`, `L402 abc:${'0F'.repeat(32)}`])
    assert.match(String(apertureSettings({ ...whole, BOLTGATE_APERTURE_TOKEN: token })), /is not `L402 <macaroon>/)
})

test('its configuration gets the addresses of the run, and must have places for both', () => {
  assert.equal(
    apertureConfiguration('listenaddr: "LISTEN"\nservices:\n  - address: "UPSTREAM"\n', '127.0.0.1:1', '127.0.0.1:2'),
    'listenaddr: "127.0.0.1:1"\nservices:\n  - address: "127.0.0.1:2"\n'
  )
  assert.throws(() => apertureConfiguration('listenaddr: "LISTEN"', '', ''), /has no UPSTREAM/)
  assert.throws(() => apertureConfiguration('address: "UPSTREAM"', '', ''), /has no LISTEN/)
})
