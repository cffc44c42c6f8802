/** Bodies that are slow for some readers of JSON, by what they are made of. */

/** Each in about `size` bytes; the ones that can be read have the member `model`. */
export function hostileBodies(size: number): ReadonlyMap<string, string> {
  const list = (item: string | ((index: number) => string), between = ','): string =>
    `{"model":"small","x":[${filled(size - 30, item, between)}]}`
  const object = (item: (index: number) => string): string => `{${filled(size - 20, item)},"model":"small"}`
  const string = (part: string): string => `{"model":"small","x":"${part.repeat((size - 30) / part.length)}"}`
  return new Map([
    ['an object of short names', object(index => `"${index.toString(36)}":1`)],
    ['an object of names with escapes', object(index => `"\\u0061${index.toString(36)}":1`)],
    ['an object of names beyond ASCII', object(index => `"é${index.toString(36)}":1`)],
    ['an object of names that look alike', object(index => `"MODE${(index % 1296).toString(36)}":1`)],
    ['one name repeatedly', object(() => '"a":1')],
    ['numbers with exponents', list('1e1')],
    ['one-digit numbers', list('1')],
    ['long decimals', list('0.12345678901234567')],
    ['one number', `{"model":"small","x":${'1'.repeat(size - 30)}}`],
    ['literals', list('null')],
    ['empty strings', list('""')],
    ['empty lists', list('[]')],
    ['empty objects', list('{}')],
    ['objects of one member', list('{"a":1}')],
    ['objects of nine members', list(`{${[...'abcdefghi'].map(name => `"${name}":1`).join(',')}}`)],
    ['objects of seventeen members', list(`{${[...'abcdefghijklmnopq'].map(name => `"${name}":1`).join(',')}}`)],
    ['open lists', '['.repeat(size)],
    ['open objects', '{"a":'.repeat(size / 5)],
    ['a large list at the deepest level', `${'{"a":'.repeat(60)}[${filled(size - 400, '1')}]${'}'.repeat(60)}`],
    ['backslashes', string('\\\\')],
    ['escaped quotes', string('\\"')],
    ['unicode escapes', string('\\u0041')],
    ['lone surrogates', string('\\ud800')],
    ['a long string', string('x')],
    ['spaces', `{${' '.repeat(size - 30)}"model":"small"}`],
    ['spaces between items', list('1', ' ,\n\t')],
    [
      'a batch of small messages',
      `[${filled(size - 2, index => `{"jsonrpc":"2.0","id":${index},"method":"tools/call","params":{"name":"small"}}`)}]`
    ],
    [
      'a call with many arguments',
      `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"small","arguments":{${filled(size - 90, index => `"${((index * 7919) % 1e6).toString(36)}x${index}":1`)}}}}`
    ],
    [
      'a call with many numbers',
      `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"small","arguments":{"x":[${filled(size - 90, '1e1')}]}}}`
    ]
  ])
}

/** Bodies of an OpenAI request, slow for what reads more than one member. */
export function meteredBodies(size: number): ReadonlyMap<string, string> {
  const chat = (members: string): string => `{"model":"small","stream":true,"messages":[],${members}}`
  const items = (item: string, part: number): string => `[${filled(size / part - 90, item)}]`
  return new Map([
    ['a prompt of token ids', chat(`"prompt":${items('1', 1)}`)],
    ['a prompt of texts', chat(`"prompt":${items('""', 1)}`)],
    ['inputs of token ids', chat(`"input":${items('[1]', 1)}`)],
    [
      'prompt, input and embeddings',
      chat(`"prompt":${items('1', 3)},"input":${items('1', 3)},"prompt_embeds":${items('""', 3)}`)
    ],
    ['options of the stream', chat(`"stream_options":{${filled(size - 90, index => `"${index.toString(36)}":1`)}}`)],
    ['options of the stream with a list', chat(`"stream_options":{"x":${items('1', 1)}}`)],
    [
      'names as long as those that are read',
      `{${filled(size - 20, index => `"${index.toString(36).padStart(10, 'm')}":1`)},"model":"small"}`
    ],
    ['messages', `{"model":"small","stream":true,"messages":${items('{"role":"user","content":"x"}', 1)}}`]
  ])
}

function filled(size: number, item: string | ((index: number) => string), between = ','): string {
  const items: string[] = []
  let length = 0
  for (let index = 0; ; index++) {
    const text = typeof item === 'string' ? item : item(index)
    length += Buffer.byteLength(text) + between.length
    if (length > size) return items.join(between)
    items.push(text)
  }
}
