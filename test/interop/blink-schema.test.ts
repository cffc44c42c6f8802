/** What is asked of Blink, and what the fake knows, before Blink's own schema, where a file of it is named. */
import { readFileSync } from 'node:fs'
import { buildSchema, getNamedType, isInputObjectType, isInterfaceType, isObjectType, parse, validate } from 'graphql'
import t from 'tap'
import * as documents from '../../src/lightning/kinds/blink/documents.ts'
import { BLINK_SCHEMA } from '../fakes/blink.ts'

const file = process.env['BOLTGATE_BLINK_SCHEMA']
const skip =
  file === undefined
    ? "set BOLTGATE_BLINK_SCHEMA to a file of Blink's public schema, as its repository or introspection has it"
    : false

t.test("Blink's own schema takes every document, and has every field of the fake's", { skip }, async t => {
  const theirs = buildSchema(readFileSync(file ?? '', 'utf8'), { assumeValidSDL: true })
  for (const { name, document } of Object.values(documents))
    t.same(
      validate(theirs, parse(document)).map(({ message }) => message),
      [],
      name
    )
  const ours = buildSchema(BLINK_SCHEMA)
  for (const type of Object.values(ours.getTypeMap())) {
    if (type.name.startsWith('__') || !(isObjectType(type) || isInputObjectType(type))) continue
    const real = theirs.getType(type.name)
    if (!isObjectType(real) && !isInputObjectType(real)) {
      t.fail(`Blink has no type ${type.name}`)
      continue
    }
    for (const field of Object.values(type.getFields())) {
      const there = real.getFields()[field.name]?.type
      // The fake has one type instead of an interface.
      const isOne = there !== undefined && isInterfaceType(getNamedType(there))
      t.equal(isOne ? String(field.type) : String(there), String(field.type), `${type.name}.${field.name}`)
    }
  }
})
