// Work that ends before its time leaves nothing behind: signals, workers that are terminated, processes that exit.

import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { mkdir, readdir, writeFile } from 'node:fs/promises'
import { dirname } from 'node:path'
import { test } from 'node:test'
import { setImmediate } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { Worker } from 'node:worker_threads'
import { Client } from 'sherd-client'
import { KEYS, MIB, noise, nodeTest, removeEmpty, withNode } from './node.mjs'

withNode()

const here = dirname(fileURLToPath(import.meta.url))

nodeTest('a signal ends an upload', async (given) => {
  const { client, bucket, file } = given
  await writeFile(file('up'), noise(24 * MIB, 1))
  const aborting = new AbortController()
  const onProgress = () => aborting.abort(new RangeError('enough'))
  const { signal } = aborting
  const uploads = async () => {
    for (;;) await client.upload(bucket, 'key', file('up'), { onProgress, signal })
  }
  await assert.rejects(uploads(), new RangeError('enough'))
  await assert.rejects(client.get(bucket, 'key', { signal }), new RangeError('enough'))
  await removeEmpty(given)
})

nodeTest('a signal ends a download', async ({ client, bucket, file }) => {
  await client.put(bucket, 'key', noise(24 * MIB, 2))
  await mkdir(file('down'))
  const aborting = new AbortController()
  const onProgress = () => aborting.abort()
  const { signal } = aborting
  const downloads = async () => {
    for (;;) await client.download(bucket, 'key', file('down/file'), { onProgress, signal })
  }
  await assert.rejects(downloads(), { name: 'AbortError' })
  assert.deepEqual((await readdir(file('down'))).filter((name) => name !== 'file'), [])
})

nodeTest('a signal ends streams, also those that wait', async (given) => {
  const { client, bucket } = given
  await client.put(bucket, 'read', noise(17 * MIB, 3))
  const aborting = new AbortController()
  const { signal } = aborting
  async function* endless() {
    yield noise(17 * MIB, 4)
    await new Promise(() => {})
  }
  const uploading = client.uploadFrom(bucket, 'key', endless(), { signal })
  const reader = await client.reader(bucket, 'read', { signal })
  const writer = client.writer(bucket, 'key', { signal })
  await writer.write(noise(17 * MIB, 5))
  aborting.abort(new RangeError('enough'))
  await assert.rejects(uploading, new RangeError('enough'))
  await assert.rejects(reader[Symbol.asyncIterator]().next(), new RangeError('enough'))
  await assert.rejects(writer.write('more'), new RangeError('enough'))
  await writer.abort()
  await client.delete(bucket, 'read')
  await removeEmpty(given)
})

test('a deadline ends a call', async () => {
  const away = new Client({ endpoint: 'http://127.0.0.1:1', ...KEYS, attempts: 100 })
  const signal = AbortSignal.timeout(200)
  await assert.rejects(away.stat('bucket', 'key', { signal }), { name: 'TimeoutError' })
})

nodeTest('waits leave the thread to others', async ({ client, bucket, file }) => {
  await writeFile(file('up'), noise(16 * MIB, 6))
  let [turns, isEnded] = [0, false]
  const uploading = client.upload(bucket, 'key', file('up')).finally(() => (isEnded = true))
  for (; !isEnded; turns++) await setImmediate()
  await uploading
  assert.ok(turns > 1)
})

nodeTest('calls of many run side by side under one signal', async ({ client, bucket }) => {
  const { signal } = new AbortController()
  /** @type {string[]} */
  const warnings = []
  process.on('warning', ({ message }) => warnings.push(message))
  const keys = Array.from({ length: 200 }, (_, number) => String(number))
  await Promise.all(keys.map((key) => client.put(bucket, key, key, { signal })))
  const read = await Promise.all(keys.map((key) => client.get(bucket, key, { signal })))
  assert.deepEqual(read.map(String), keys)
  assert.deepEqual(warnings, [])
})

// Uploads `key` over and over, and says so in the middle of it.
const busy = `
  const { Client } = require('sherd-client')
  const { endpoint, bucket, path, inTheMiddle } = settings
  const client = new Client({ endpoint, ...${JSON.stringify(KEYS)} })
  const onProgress = ({ bytes, total }) => bytes > 0 && bytes < total && inTheMiddle()
  const writer = client.writer(bucket, 'written')
  const write = async () => {
    for (let count = 0; count < 20; count++) await writer.write(Buffer.alloc(1 << 20, count))
    for (;;) await client.upload(bucket, 'key', path, { onProgress })
  }
  write()
`

nodeTest('a process that exits leaves nothing behind', async (given) => {
  const { endpoint, bucket, file } = given
  await writeFile(file('up'), noise(64 * MIB, 7))
  const settings = JSON.stringify({ endpoint, bucket, path: file('up') })
  const script = `const settings = { ...${settings}, inTheMiddle: () => process.exit(7) }; ${busy}`
  const ended = spawnSync(process.execPath, ['-e', script], { cwd: here, stdio: 'inherit' })
  assert.equal(ended.status, 7)
  await removeEmpty(given)
})

nodeTest('a worker that is terminated leaves nothing behind', async (given) => {
  const { endpoint, bucket, file } = given
  await writeFile(file('up'), noise(64 * MIB, 8))
  const script = `
    const { parentPort, workerData } = require('node:worker_threads')
    const settings = { ...workerData, inTheMiddle: () => parentPort.postMessage('now') }
    ${busy.replace("'sherd-client'", JSON.stringify(fileURLToPath(import.meta.resolve('sherd-client'))))}
  `
  const worker = new Worker(script, { eval: true, workerData: { endpoint, bucket, path: file('up') } })
  await new Promise((resolve, reject) => worker.once('message', resolve).once('error', reject))
  await worker.terminate()
  await removeEmpty(given)
})

nodeTest('a process ends by itself beside a client, a reader and a writer', async ({ client, endpoint, bucket }) => {
  await client.put(bucket, 'read', noise(17 * MIB, 9))
  const script = `
    const { Client } = require('sherd-client')
    const client = new Client({ endpoint: ${JSON.stringify(endpoint)}, ...${JSON.stringify(KEYS)} })
    const bucket = ${JSON.stringify(bucket)}
    client.writer(bucket, 'written').write('text').then(() => client.reader(bucket, 'read')).then(() => client.readMany(bucket).next())
  `
  const ended = spawnSync(process.execPath, ['-e', script], { cwd: here, stdio: 'inherit' })
  assert.equal(ended.status, 0)
  await assert.rejects(client.stat(bucket, 'written'), { status: 404 })
})
