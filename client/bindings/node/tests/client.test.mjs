// All verbs against a running node.

import assert from 'node:assert/strict'
import { createReadStream } from 'node:fs'
import { readFile, writeFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { Readable } from 'node:stream'
import { buffer } from 'node:stream/consumers'
import { test } from 'node:test'
import * as sherd from 'sherd-client'
import { KEYS, MIB, all, noise, nodeTest, withNode } from './node.mjs'

withNode()

test('the types name all that there is', async () => {
  const types = await readFile(createRequire(import.meta.url).resolve('sherd-client/index.d.ts'), 'utf8')
  const classes = [...types.matchAll(/^export class (\w+)/gm)].map(([, name]) => name)
  assert.deepEqual(Object.keys(sherd.default).sort(), classes.sort())
  const verbs = types.split('export class Client {')[1]?.split('\n}')[0]?.matchAll(/^ {2}(\w+)\(/gm) ?? []
  const names = Object.getOwnPropertyNames(sherd.Client.prototype)
  assert.deepEqual(names.sort(), [...verbs].map(([, name]) => name).sort())
})

nodeTest('bytes go up and down', async ({ client, bucket }) => {
  const content = noise(17 * MIB, 1)
  const copy = new Uint8Array(content)
  for (const data of [content, copy, copy.buffer, new DataView(copy.buffer)]) {
    assert.equal(await client.put(bucket, 'a.html', data), content.length)
    assert.deepEqual(await client.get(bucket, 'a.html'), content)
  }
  assert.deepEqual(await client.get(bucket, 'a.html', { offset: 5, bytes: 7 }), content.subarray(5, 12))
  assert.equal((await client.get(bucket, 'a.html', { offset: content.length })).length, 0)
  await client.put(bucket, 'text', 'ü')
  assert.equal((await client.get(bucket, 'text')).toString(), 'ü')
})

nodeTest('bytes are those of the time of the call', async ({ client, bucket }) => {
  const data = Buffer.alloc(MIB, 1)
  const stored = client.put(bucket, 'key', data)
  data.fill(2)
  await stored
  assert.deepEqual(await client.get(bucket, 'key'), Buffer.alloc(MIB, 1))
})

nodeTest('heads have what was stored', async ({ client, bucket }) => {
  const attributes = { metadata: { Author: 'me' }, headers: { 'Cache-Control': 'no-store' }, tags: { a: 'b' } }
  await client.put(bucket, 'a.html', 'text', attributes)
  const info = await client.stat(bucket, 'a.html')
  assert.deepEqual([info.bytes, info.contentType, info.metadata], [4, 'text/html', { author: 'me' }])
  assert.equal(info.headers['cache-control'], 'no-store')
  assert.equal(info.checksum?.algorithm, 'CRC64NVME')
  assert.ok(info.modified instanceof Date && Math.abs(Date.now() - info.modified.getTime()) < 3_600_000)
  await client.put(bucket, 'a.html', 'text', { contentType: 'text/plain' })
  assert.equal((await client.stat(bucket, 'a.html')).contentType, 'text/plain')
})

nodeTest('files go up and down with progress', async ({ client, bucket, file }) => {
  const content = noise(18 * MIB, 2)
  const whole = { bytes: content.length, total: content.length }
  /** @type {sherd.Progress[]} */
  const seen = []
  const onProgress = (/** @type {sherd.Progress} */ progress) => seen.push(progress)
  await writeFile(file('up'), content)
  assert.equal(await client.upload(bucket, 'key', file('up'), { onProgress }), content.length)
  assert.deepEqual(seen.at(-1), whole)
  seen.length = 0
  assert.equal((await client.download(bucket, 'key', file('down'), { onProgress })).bytes, content.length)
  assert.deepEqual(seen.at(-1), whole)
  assert.deepEqual(await readFile(file('down')), content)
})

nodeTest('a progress that throws ends the call', async ({ client, bucket, file }) => {
  await writeFile(file('up'), noise(MIB, 3))
  const onProgress = () => {
    throw new RangeError('enough')
  }
  await assert.rejects(client.upload(bucket, 'key', file('up'), { onProgress }), new RangeError('enough'))
})

nodeTest('lists have objects and prefixes in order', async ({ client, bucket }) => {
  for (const key of ['a/1', 'a/2', 'b', 'ü x']) await client.put(bucket, key, key)
  assert.deepEqual((await all(client.list(bucket))).map(({ key }) => key), ['a/1', 'a/2', 'b', 'ü x'])
  const entries = await all(client.list(bucket, '', { byFolder: true }))
  assert.deepEqual(
    entries.map(({ key, isPrefix }) => [key, isPrefix]),
    [['a/', true], ['b', false], ['ü x', false]],
  )
  assert.deepEqual((await all(client.list(bucket, 'a/'))).map(({ bytes }) => bytes), [3, 3])
  for await (const { key } of client.list(bucket)) {
    assert.equal(key, 'a/1')
    break
  }
  assert.ok((await client.buckets()).some(({ name, created }) => name === bucket && created instanceof Date))
})

nodeTest('objects are copied and removed', async ({ client, bucket }) => {
  await client.put(bucket, 'a', 'text')
  assert.equal((await client.copy(bucket, 'a', bucket, 'b')).bytes, 4)
  await client.delete(bucket, 'a')
  await client.delete(bucket, 'a')
  assert.deepEqual(await client.deleteMany(bucket, new Set(['a', 'b'])), [])
  assert.deepEqual(await all(client.list(bucket)), [])
  await client.deleteBucket(bucket)
  await assert.rejects(all(client.list(bucket)), sherd.NotFound)
})

nodeTest('a presigned URL needs no keys', async ({ client, bucket }) => {
  const url = client.presign(bucket, 'key', { method: 'PUT' })
  assert.equal((await fetch(url, { method: 'PUT', body: 'by URL' })).status, 200)
  assert.equal(await (await fetch(client.presign(bucket, 'key', { seconds: 60 }))).text(), 'by URL')
})

nodeTest('an object is written and read piece by piece', async ({ client, bucket }) => {
  const content = noise(17 * MIB, 4)
  const writer = client.writer(bucket, 'key', { contentType: 'text/plain' })
  for (let at = 0; at < content.length; at += MIB) await writer.write(content.subarray(at, at + MIB))
  assert.equal(await writer.finish(), content.length)
  await assert.rejects(writer.write('more'), sherd.Cancelled)
  await writer.abort()
  const reader = await client.reader(bucket, 'key')
  assert.deepEqual([reader.info.bytes, reader.info.contentType], [content.length, 'text/plain'])
  assert.deepEqual(Buffer.concat(await all(reader)), content)
  const range = await client.reader(bucket, 'key', { offset: 3 * MIB, bytes: MIB })
  assert.deepEqual(await buffer(range.stream()), content.subarray(3 * MIB, 4 * MIB))
})

nodeTest('a reader that is closed is not at its end', async ({ client, bucket }) => {
  await client.put(bucket, 'key', noise(17 * MIB, 5))
  const reader = await client.reader(bucket, 'key')
  for await (const piece of reader) {
    assert.ok(piece.length > 0)
    break
  }
  await reader.close()
  await assert.rejects(all(reader), sherd.Cancelled)
  const stream = (await client.reader(bucket, 'key')).stream()
  stream.destroy()
  await assert.rejects(buffer(stream), { code: 'ERR_STREAM_PREMATURE_CLOSE' })
})

nodeTest('streams and iterables are uploaded', async ({ client, bucket, file }) => {
  const content = noise(17 * MIB, 6)
  await writeFile(file('up'), content)
  await client.uploadFrom(bucket, 'file', createReadStream(file('up')))
  assert.deepEqual(await client.get(bucket, 'file'), content)
  for (const source of ['of pieces', Buffer.from('of pieces'), ['of', ' ', 'pieces'], new Blob(['of pieces']).stream()]) {
    const { signal } = new AbortController()
    for (const options of [{}, { signal }]) {
      const pieces = source instanceof ReadableStream ? new Blob(['of pieces']).stream() : source
      assert.equal(await client.uploadFrom(bucket, 'pieces', pieces, options), 9)
      assert.equal((await client.get(bucket, 'pieces')).toString(), 'of pieces')
    }
  }
})

nodeTest('a source that fails stores nothing', async ({ client, bucket }) => {
  async function* pieces() {
    yield noise(17 * MIB, 7)
    throw new RangeError('the source ends')
  }
  for (const source of [pieces(), Readable.from(pieces())]) {
    await assert.rejects(client.uploadFrom(bucket, 'key', source), new RangeError('the source ends'))
  }
  // A bucket with an upload or an object in it cannot be removed.
  await client.deleteBucket(bucket)
})

nodeTest('many objects come in order behind one that is absent', async ({ client, bucket }) => {
  const keys = Array.from({ length: 40 }, (_, number) => `sample/${String(number).padStart(2, '0')}`)
  await Promise.all(keys.map((key) => client.put(bucket, key, key)))
  const read = await all(client.readMany(bucket, { prefix: 'sample/' }))
  assert.deepEqual(read.map(({ key, data }) => [key, data.toString()]), keys.map((key) => [key, key]))
  const samples = client.readMany(bucket, { keys: ['absent', ...keys.toReversed()], ahead: 5 })
  await assert.rejects(samples.next(), sherd.NotFound)
  assert.deepEqual((await all(samples)).map(({ key }) => key), keys.toReversed())
  const left = client.readMany(bucket, { prefix: 'sample/' })
  for await (const { key } of left) {
    assert.equal(key, keys[0])
    break
  }
  await assert.rejects(left.next(), sherd.Cancelled)
})

nodeTest('refusals have a type and the words of the service', async ({ client, bucket, endpoint }) => {
  await assert.rejects(client.get(bucket, 'absent'), (error) => {
    assert.ok(error instanceof sherd.NotFound && error instanceof sherd.SherdError)
    assert.deepEqual([error.name, error.kind, error.status, error.code], ['NotFound', 'refused', 404, 'NoSuchKey'])
    assert.match(error.message, new RegExp(`s3://${bucket}/absent`))
    assert.notEqual(error.requestId, '')
    return true
  })
  const wrong = new sherd.Client({ endpoint, accessKey: 'tester', secretKey: 'wrong' })
  await assert.rejects(wrong.put(bucket, 'key', ''), { name: 'Denied', code: 'SignatureDoesNotMatch' })
})

nodeTest('names and numbers that cannot be are refused', async ({ client, bucket, endpoint }) => {
  const wrong = /** @type {any} */ (7)
  const calls = [
    () => client.delete(bucket, ''),
    () => client.reader('', 'key'),
    async () => client.writer(bucket, ''),
    () => client.list('').next(),
    () => client.put(bucket, 'key', wrong),
    () => client.put(bucket, 'key', '', { metadata: { a: wrong } }),
    () => client.get(bucket, 'key', { offset: -1 }),
    () => client.get(bucket, 'key', { offset: 0.5 }),
    () => client.get(bucket, 'key', { bytes: Number.NaN }),
    () => client.get(bucket, 'key', { bytes: /** @type {any} */ ('7') }),
    () => client.stat(wrong, 'key'),
    async () => client.presign(bucket, 'key', { seconds: 0 }),
    async () => client.presign(bucket, 'key', { method: /** @type {any} */ ('POST') }),
    async () => client.readMany(bucket, { ahead: 0 }),
    async () => new sherd.Client({ endpoint, ...KEYS, workers: 0 }),
    async () => new sherd.Client({ endpoint, ...KEYS, workers: 2 ** 32 + 1 }),
    async () => new sherd.Client({ endpoint, ...KEYS, attempts: 0 }),
    async () => new sherd.Client({ endpoint, accessKey: 'half' }),
  ]
  for (const call of calls) await assert.rejects(call, sherd.InvalidArgument, String(call))
  assert.throws(() => new sherd.Client({ endpoint: 'nowhere', ...KEYS }), sherd.ConfigurationError)
  assert.deepEqual(await all(client.list(bucket)), [], 'the bucket is still there')
})

nodeTest('a file that cannot be used is an error as of node:fs', async ({ client, bucket, file }) => {
  await assert.rejects(client.upload(bucket, 'key', file('absent')), {
    name: 'LocalFileError',
    code: 'ENOENT',
    errno: -2,
    message: /absent/,
  })
})

test('an endpoint that does not answer', async () => {
  const away = new sherd.Client({ endpoint: 'http://127.0.0.1:1', ...KEYS, attempts: 1 })
  await assert.rejects(away.stat('bucket', 'key'), sherd.NoAnswer)
})
