// A node of the store that all tests of a file share, each test with a bucket of its own.
//
// SHERD_NODE names the binary. Without it the tests are skipped, and say so.

import { spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { after, before, test } from 'node:test'
import { Client } from 'sherd-client'

const binary = process.env.SHERD_NODE ?? ''

export const MIB = 1 << 20
export const KEYS = { accessKey: 'tester', secretKey: 'tester-secret' }
export const VARIABLES = { AWS_ACCESS_KEY_ID: KEYS.accessKey, AWS_SECRET_ACCESS_KEY: KEYS.secretKey }

/**
 * Starts a program, and returns it with the first word behind `ready ` that it prints.
 *
 * @param {string} command
 * @param {string[]} words
 * @param {import('node:child_process').SpawnOptions} options
 */
export async function started(command, words, options) {
  const program = spawn(command, words, { ...options, stdio: ['ignore', 'pipe', 'inherit'] })
  const ended = new Promise((resolve) => program.once('exit', resolve))
  if (program.stdout == null) throw new Error('its output is piped')
  for await (const line of createInterface(program.stdout)) {
    const ready = /ready (\S+)/.exec(line)
    if (ready?.[1] == null) continue
    program.stdout.resume()
    const stop = async () => {
      program.kill('SIGTERM')
      await ended
    }
    return { address: ready[1], stop }
  }
  throw new Error(`${command} does not start`)
}

let endpoint = ''
let count = 0

/** Starts the node before the tests of the file that calls it. */
export function withNode() {
  if (binary === '') return
  /** @type {() => Promise<void>} */
  let tearDown
  before(async () => {
    const folder = await mkdtemp(join(tmpdir(), 'sherd-'))
    const words = ['ci', '--dir', folder, '--listen', '127.0.0.1:0', '--log-level', 'error']
    const { address, stop } = await started(binary, words, { env: { ...process.env, ...VARIABLES } })
    endpoint = address
    tearDown = async () => {
      await stop()
      await rm(folder, { recursive: true })
    }
  })
  after(() => tearDown())
}

/**
 * A test with a client, an empty bucket and an empty folder.
 *
 * @typedef {{ client: Client, endpoint: string, bucket: string, file: (name: string) => string }} Given
 * @param {string} name
 * @param {(given: Given) => Promise<void>} work
 */
export function nodeTest(name, work) {
  const skip = binary === '' && 'SKIPPED: SHERD_NODE names no sherd-node'
  test(name, { skip }, async () => {
    const folder = await mkdtemp(join(tmpdir(), 'sherd-'))
    const client = new Client({ endpoint, ...KEYS })
    const bucket = `node-${process.pid}-${count++}`
    await client.createBucket(bucket)
    try {
      await work({ client, endpoint, bucket, file: (file) => join(folder, file) })
    } finally {
      await rm(folder, { recursive: true })
    }
  })
}

/**
 * Bytes that are equal nowhere else.
 *
 * @param {number} bytes
 * @param {number} seed
 */
export function noise(bytes, seed) {
  const options = { outputLength: bytes }
  return createHash('shake256', options).update(String(seed)).digest()
}

/**
 * The values of an asynchronous iterable.
 *
 * @template T
 * @param {AsyncIterable<T>} values
 */
export async function all(values) {
  /** @type {T[]} */
  const all = []
  for await (const value of values) all.push(value)
  return all
}

/**
 * Removes a bucket. One with an upload or an object in it cannot be.
 *
 * @param {Given} given
 */
export async function removeEmpty({ client, bucket }) {
  await client.delete(bucket, 'key')
  await client.deleteBucket(bucket)
}
