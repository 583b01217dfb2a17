// The example with Express in a server of its own.

import assert from 'node:assert/strict'
import { request } from 'node:http'
import { setImmediate } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { Refused } from 'sherd-client'
import { MIB, VARIABLES, all, noise, nodeTest, started, withNode } from './node.mjs'

withNode()

nodeTest('bodies pass through the example', async ({ client, bucket, endpoint }) => {
  const path = fileURLToPath(new URL('../examples/express-app.mjs', import.meta.url))
  const env = { ...process.env, ...VARIABLES, SHERD_BUCKET: bucket, AWS_ENDPOINT_URL: endpoint, PORT: '0', NODE_ENV: 'test' }
  const { address, stop } = await started(process.execPath, [path], { env })
  try {
    const url = `${address}/files/a/b.bin`
    const content = noise(17 * MIB, 1)
    assert.deepEqual(await (await fetch(url, { method: 'PUT', body: content })).json(), { bytes: content.length })
    assert.equal((await fetch(url, { method: 'HEAD' })).headers.get('content-length'), String(content.length))
    assert.deepEqual(Buffer.from(await (await fetch(url)).arrayBuffer()), content)
    assert.equal((await fetch(`${url}.absent`)).status, 404)

    // A reader and a sender that go away in the middle.
    const answer = await fetch(url)
    await answer.body?.cancel()
    const sender = request(`${address}/files/half`, { method: 'PUT', headers: { 'content-length': 2 * content.length } })
    const closed = new Promise((resolve) => sender.once('error', resolve).once('close', resolve))
    await new Promise((resolve) => sender.write(content, resolve))
    sender.destroy()
    await closed
    assert.deepEqual((await all(client.list(bucket))).map(({ key }) => key), ['a/b.bin'])
    await client.delete(bucket, 'a/b.bin')
    await removed(client, bucket)
  } finally {
    await stop()
  }
})

/**
 * Removes a bucket as soon as the server has removed the upload that broke off.
 *
 * @param {import('sherd-client').Client} client
 * @param {string} bucket
 */
async function removed(client, bucket) {
  for (const deadline = Date.now() + 30_000; ; await setImmediate()) {
    try {
      return await client.deleteBucket(bucket)
    } catch (error) {
      if (!(error instanceof Refused) || error.code !== 'BucketNotEmpty' || Date.now() > deadline) throw error
    }
  }
}
