'use strict'

// The face of the client for Node.js. index.d.ts has the types and says what each verb does.

const { setMaxListeners } = require('node:events')
const { Readable } = require('node:stream')
const { getSystemErrorName } = require('node:util')
const native = require(`./native/${process.platform}-${process.arch}.node`)

const PROGRESS_MS = 100
// Bytes of the pieces that a reader gives.
const PIECE_BYTES = 256 * 1024

// What is under way ends with this thread of JavaScript.
const environment = new native.Environment()

class SherdError extends Error {
  constructor({ kind, message }) {
    super(message)
    this.name = this.constructor.name
    this.kind = kind
  }
}
class Refused extends SherdError {
  constructor(failure) {
    super(failure)
    this.status = failure.status
    this.code = failure.code
    this.requestId = failure.requestId
  }
}
class NotFound extends Refused {}
class Denied extends Refused {}
class NoAnswer extends SherdError {}
class ChecksumMismatch extends SherdError {}
class ObjectChanged extends SherdError {}
class SourceChanged extends SherdError {}
class LocalFileError extends SherdError {
  constructor(failure) {
    super(failure)
    this.errno = failure.errno == null ? null : -failure.errno
    this.code = this.errno == null ? null : getSystemErrorName(this.errno)
  }
}
class InvalidArgument extends SherdError {}
class ConfigurationError extends SherdError {}
class Cancelled extends SherdError {}
class InternalError extends SherdError {}

const classes = {
  no_answer: NoAnswer,
  checksum: ChecksumMismatch,
  object_changed: ObjectChanged,
  source_changed: SourceChanged,
  file: LocalFileError,
  name: InvalidArgument,
  plan: InvalidArgument,
  credentials: ConfigurationError,
  endpoint: ConfigurationError,
  cancelled: Cancelled,
}

function refuse(message) {
  throw new InvalidArgument({ kind: 'argument', message })
}

// The error of a failure that the part in Rust wrote as JSON.
function errorOf(failure) {
  if (failure.kind === 'refused') {
    if (failure.status === 404) return new NotFound(failure)
    return failure.status === 401 || failure.status === 403 ? new Denied(failure) : new Refused(failure)
  }
  return new (classes[failure.kind] ?? InternalError)(failure)
}

// The error of what the part in Rust threw: a failure, an argument of another type, or a panic.
function known(error) {
  const { message, code } = error
  if (error instanceof SherdError || typeof code !== 'string') return error
  if (code !== 'GenericFailure') return new InvalidArgument({ kind: 'argument', message })
  try {
    return errorOf(JSON.parse(message))
  } catch {
    return new InternalError({ kind: 'internal', message })
  }
}

function begun(begin) {
  try {
    return begin()
  } catch (error) {
    throw known(error)
  }
}

// A call or a stream, which its signal cancels until it ends.
class Work {
  #signal
  #cancel = () => this.control.cancel()

  constructor(signal) {
    signal?.throwIfAborted()
    this.control = environment.control()
    this.#signal = signal
    if (signal == null) return
    // A signal may end any number of calls.
    setMaxListeners(0, signal)
    signal.addEventListener('abort', this.#cancel, { once: true })
  }

  // Waits for what `begin` starts.
  async wait(begin) {
    try {
      return await begin(this.control)
    } catch (error) {
      this.end()
      const failure = known(error)
      throw failure instanceof Cancelled && this.#signal?.aborted ? this.#signal.reason : failure
    }
  }

  end() {
    this.#signal?.removeEventListener('abort', this.#cancel)
  }
}

// Begins a call, and waits for its end.
async function run(begin, { signal, onProgress } = {}) {
  const work = new Work(signal)
  if (onProgress == null) {
    const value = await work.wait(begin)
    work.end()
    return value
  }
  // What `onProgress` throws ends the call, and is its error.
  let thrown
  const report = () => {
    try {
      onProgress({ bytes: work.control.bytes, total: work.control.total })
    } catch (error) {
      thrown ??= { error }
      work.control.cancel()
    }
  }
  const timer = setInterval(report, PROGRESS_MS)
  try {
    const value = await work.wait(begin)
    work.end()
    report()
    return value
  } finally {
    clearInterval(timer)
    if (thrown) throw thrown.error
  }
}

const time = (milliseconds) => (milliseconds == null ? null : new Date(milliseconds))

function infoOf(head) {
  const { bytes, etag, modified, checksumAlgorithm, checksum, version, storageClass, headers } = head
  const own = 'x-amz-meta-'
  const metadata = Object.entries(headers).filter(([name]) => name.startsWith(own))
  return {
    bytes,
    etag,
    modified: time(modified),
    checksum: checksum == null ? null : { algorithm: checksumAlgorithm, value: checksum },
    version: version ?? null,
    storageClass: storageClass ?? null,
    contentType: headers['content-type'] ?? null,
    metadata: Object.fromEntries(metadata.map(([name, value]) => [name.slice(own.length), value])),
    headers,
  }
}

function entryOf({ key, bytes, modified, etag, storageClass }) {
  return {
    key,
    isPrefix: bytes == null,
    bytes: bytes ?? null,
    modified: time(modified),
    etag: etag ?? null,
    storageClass: storageClass ?? null,
  }
}

function attributesOf({ contentType, metadata = {}, headers = {}, tags = {} } = {}) {
  const all = Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value])
  for (const [name, value] of Object.entries(metadata)) all.push([`x-amz-meta-${name.toLowerCase()}`, value])
  if (contentType != null) all.push(['content-type', contentType])
  return { headers: Object.fromEntries(all), tags }
}

const isData = (data) => typeof data === 'string' || data instanceof ArrayBuffer || ArrayBuffer.isView(data)

function bytesOf(data) {
  if (!isData(data)) refuse('data is a string, an ArrayBuffer or a view of one')
  return ArrayBuffer.isView(data) ? Buffer.from(data.buffer, data.byteOffset, data.byteLength) : Buffer.from(data)
}

// The pieces of a source. The signal ends the wait for the next one, too.
async function* piecesOf(source, signal) {
  const pieces = isData(source) ? [source] : source
  if (signal == null) return yield* pieces
  const iterator = (pieces[Symbol.asyncIterator] ?? pieces[Symbol.iterator]).call(pieces)
  try {
    for (;;) {
      const { done, value } = await next(iterator, signal)
      if (done) return
      yield value
    }
  } finally {
    // Not waited for: a source that gives no more may not end, either.
    Promise.resolve(iterator.return?.()).catch(() => {})
  }
}

function next(iterator, signal) {
  return new Promise((resolve, reject) => {
    signal.throwIfAborted()
    const abort = () => reject(signal.reason)
    signal.addEventListener('abort', abort, { once: true })
    const given = Promise.resolve(iterator.next()).finally(() => signal.removeEventListener('abort', abort))
    given.then(resolve, reject)
  })
}

// A number that the part in Rust would cut or turn around is refused here.
function whole(name, value) {
  if (value == null || (Number.isSafeInteger(value) && value >= 0)) return value ?? undefined
  return refuse(`${name} is a whole number, 0 or more`)
}

class ObjectReader {
  #work
  #reader
  #isEnded = false

  constructor(work, reader) {
    this.#work = work
    this.#reader = reader
    this.info = infoOf(reader.head)
  }

  async #next() {
    const piece = await this.#work.wait(() => this.#reader.next())
    if (piece == null) {
      this.#isEnded = true
      this.#work.end()
    }
    return piece
  }

  async *[Symbol.asyncIterator]() {
    try {
      for (let piece; (piece = await this.#next()) != null; ) yield piece
    } finally {
      await this.close()
    }
  }

  stream() {
    const [piece, close] = [() => this.#next(), () => this.close()]
    return new Readable({
      highWaterMark: PIECE_BYTES,
      read() {
        piece().then((piece) => this.push(piece ?? null), (error) => this.destroy(error))
      },
      destroy(error, done) {
        close().then(() => done(error), done)
      },
    })
  }

  async close() {
    this.#work.end()
    if (!this.#isEnded) await this.#work.wait(() => this.#reader.close())
    this.#isEnded = true
  }
}

class ObjectWriter {
  #work
  #writer

  constructor(work, writer) {
    this.#work = work
    this.#writer = writer
  }

  async write(data) {
    const bytes = bytesOf(data)
    await this.#work.wait(() => this.#writer.write(bytes))
  }

  async finish() {
    const bytes = await this.#work.wait(() => this.#writer.finish())
    this.#work.end()
    return bytes
  }

  async abort() {
    this.#work.end()
    await this.#work.wait(() => this.#writer.abort())
  }
}

class SampleIterator {
  #work
  #samples

  constructor(work, samples) {
    this.#work = work
    this.#samples = samples
  }

  [Symbol.asyncIterator]() {
    return this
  }

  async next() {
    const sample = await this.#work.wait(() => this.#samples.next())
    if (sample == null) {
      this.#work.end()
      return { done: true, value: undefined }
    }
    if (sample.failure != null) throw errorOf(JSON.parse(sample.failure))
    return { done: false, value: { key: sample.key, data: sample.data } }
  }

  async return(value) {
    this.#work.end()
    await this.#work.wait(() => this.#samples.close())
    return { done: true, value }
  }
}

class Client {
  #native

  constructor(options = {}) {
    const { workers, partBytes, attempts } = options
    whole('workers', workers)
    whole('partBytes', partBytes)
    whole('attempts', attempts)
    this.#native = begun(() => new native.Native(options))
  }

  async put(bucket, key, data, options) {
    const bytes = bytesOf(data)
    return await run((control) => this.#native.put(control, bucket, key, bytes, attributesOf(options)), options)
  }

  async get(bucket, key, options = {}) {
    const { offset, bytes } = options
    const [from, count] = [whole('offset', offset) ?? 0, whole('bytes', bytes)]
    return await run((control) => this.#native.get(control, bucket, key, from, count), options)
  }

  async upload(bucket, key, path, options) {
    return await run((control) => this.#native.upload(control, bucket, key, path, attributesOf(options)), options)
  }

  async download(bucket, key, path, options) {
    return infoOf(await run((control) => this.#native.download(control, bucket, key, path), options))
  }

  async reader(bucket, key, { offset, bytes, signal } = {}) {
    const [from, count] = [whole('offset', offset) ?? 0, whole('bytes', bytes)]
    const work = new Work(signal)
    return new ObjectReader(work, await work.wait((control) => this.#native.read(control, bucket, key, from, count)))
  }

  writer(bucket, key, options = {}) {
    const work = new Work(options.signal)
    return new ObjectWriter(work, begun(() => this.#native.write(work.control, bucket, key, attributesOf(options))))
  }

  async uploadFrom(bucket, key, source, options = {}) {
    const { signal } = options
    const writer = this.writer(bucket, key, options)
    try {
      for await (const piece of piecesOf(source, signal)) await writer.write(piece)
      return await writer.finish()
    } catch (error) {
      // The first error counts.
      await writer.abort().catch(() => {})
      throw signal?.aborted ? signal.reason : error
    }
  }

  readMany(bucket, { keys, prefix = '', ahead = 16, signal } = {}) {
    const count = whole('ahead', ahead)
    const work = new Work(signal)
    const given = keys == null ? undefined : [...keys]
    return new SampleIterator(work, begun(() => this.#native.samples(work.control, bucket, given, prefix, count)))
  }

  async *list(bucket, prefix = '', { byFolder = false, signal } = {}) {
    const work = new Work(signal)
    const entries = begun(() => this.#native.list(work.control, bucket, prefix, byFolder))
    try {
      for (let page; (page = await work.wait(() => entries.next())).length > 0; ) yield* page.map(entryOf)
    } finally {
      work.end()
      await work.wait(() => entries.close())
    }
  }

  async stat(bucket, key, options) {
    return infoOf(await run((control) => this.#native.stat(control, bucket, key), options))
  }

  async copy(bucket, key, toBucket, toKey, options) {
    return infoOf(await run((control) => this.#native.copy(control, bucket, key, toBucket, toKey), options))
  }

  async delete(bucket, key, options) {
    await run((control) => this.#native.delete(control, bucket, key), options)
  }

  async deleteMany(bucket, keys, options) {
    return await run((control) => this.#native.deleteMany(control, bucket, [...keys]), options)
  }

  async buckets(options) {
    const lines = await run((control) => this.#native.buckets(control), options)
    return lines.map(({ name, created }) => ({ name, created: time(created) }))
  }

  async createBucket(bucket, options) {
    await run((control) => this.#native.createBucket(control, bucket), options)
  }

  async deleteBucket(bucket, options) {
    await run((control) => this.#native.deleteBucket(control, bucket), options)
  }

  presign(bucket, key, { seconds = 3600, method = 'GET' } = {}) {
    const valid = whole('seconds', seconds)
    if (method !== 'GET' && method !== 'PUT') refuse('method is GET or PUT')
    return begun(() => this.#native.presign(bucket, key, method === 'PUT', valid))
  }
}

module.exports = {
  Client,
  ObjectReader,
  ObjectWriter,
  SherdError,
  Refused,
  NotFound,
  Denied,
  NoAnswer,
  ChecksumMismatch,
  ObjectChanged,
  SourceChanged,
  LocalFileError,
  InvalidArgument,
  ConfigurationError,
  Cancelled,
  InternalError,
}
