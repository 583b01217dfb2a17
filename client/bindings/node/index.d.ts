/** Bytes of memory, or text in UTF-8. They are copied. */
export type Data = string | ArrayBuffer | NodeJS.ArrayBufferView

/** Pieces of bytes: a stream of Node.js or of the web, an iterable, or one piece. */
export type Source = Data | Iterable<Data> | AsyncIterable<Data>

/** A service of S3. Without options it is that of AWS's variables and profiles. */
export interface ClientOptions {
  endpoint?: string
  accessKey?: string
  secretKey?: string
  sessionToken?: string
  region?: string
  profile?: string
  /** The name under which `sherd alias set` keeps the service. */
  alias?: string
  /** A file of certificates to trust. */
  caBundle?: string
  addressing?: 'auto' | 'path' | 'virtual'
  /** Send requests without a signature. */
  anonymous?: boolean
  /** Requests at one time, over all calls. */
  workers?: number
  /** Bytes of a part; chosen by the size of each file if they are not given. */
  partBytes?: number
  /** Attempts of a request. */
  attempts?: number
  /** A folder. With it a large upload or download that was killed goes on when the same call is made again. */
  state?: string
  /** Sync downloads to disk before they have their names. */
  fsync?: boolean
}

/** The bytes of a call that is under way. */
export interface Progress {
  /** Bytes that moved. An attempt that fails takes its bytes back. */
  bytes: number
  /** Bytes that are to be moved, as far as that is known. */
  total: number
}

export interface CallOptions {
  /** Ends the call, which is rejected with the signal's reason when what it began is removed. */
  signal?: AbortSignal
}

export interface TransferOptions extends CallOptions {
  /** Is called about ten times a second, and once at the end. What it throws ends the call. */
  onProgress?: (progress: Progress) => void
}

/** What an object is stored with. */
export interface Attributes {
  /** By default that of the key's end. */
  contentType?: string
  metadata?: Record<string, string>
  headers?: Record<string, string>
  tags?: Record<string, string>
}

/** Bytes of an object: all by default. Nothing lies behind its end. */
export interface Range {
  offset?: number
  bytes?: number
}

/** The head of an object. */
export interface ObjectInfo {
  bytes: number
  etag: string
  modified: Date | null
  /** Of the whole object, in Base64. */
  checksum: { algorithm: string; value: string } | null
  version: string | null
  storageClass: string | null
  contentType: string | null
  /** The user's own headers, without `x-amz-meta-`. */
  metadata: Record<string, string>
  /** All headers that it was stored with, their names in lower case. */
  headers: Record<string, string>
}

/** A line of a list: an object, or a prefix that keys share up to a slash. */
export interface Entry {
  key: string
  isPrefix: boolean
  /** null for a prefix, as all that follows. */
  bytes: number | null
  modified: Date | null
  etag: string | null
  storageClass: string | null
}

export interface Bucket {
  name: string
  created: Date | null
}

/** A key that was not deleted. */
export interface DeleteRefusal {
  key: string
  code: string
  message: string
}

/** One of many objects. */
export interface Sample {
  key: string
  data: Buffer
}

/** An object that is read piece by piece: `for await (const piece of reader)`, which closes it. */
export class ObjectReader implements AsyncIterable<Buffer> {
  private constructor()
  readonly info: ObjectInfo
  [Symbol.asyncIterator](): AsyncGenerator<Buffer, void, void>
  /** The pieces as a stream, which closes the reader when it ends or is destroyed. */
  stream(): import('node:stream').Readable
  /** Ends the transfer. */
  close(): Promise<void>
}

/** An object of unknown size that is written piece by piece. */
export class ObjectWriter {
  private constructor()
  /** Appends bytes; waits while the service is slower. */
  write(data: Data): Promise<void>
  /** Stores the object. Resolves to its bytes. */
  finish(): Promise<number>
  /** Stores nothing, and resolves when what was begun is removed. */
  abort(): Promise<void>
}

/** Objects in order. One that cannot be read rejects, and the next call of `next` goes on with the one behind it. */
export interface SampleIterator extends AsyncIterableIterator<Sample> {
  return(value?: unknown): Promise<IteratorResult<Sample>>
}

/** A service of S3. Its methods may be called side by side. */
export class Client {
  constructor(options?: ClientOptions)
  /** Stores bytes of memory. Resolves to their number. */
  put(bucket: string, key: string, data: Data, options?: Attributes & TransferOptions): Promise<number>
  /** Reads an object, or a range of it, into memory. */
  get(bucket: string, key: string, options?: Range & TransferOptions): Promise<Buffer>
  /** Uploads a file. Resolves to its bytes. */
  upload(bucket: string, key: string, path: string, options?: Attributes & TransferOptions): Promise<number>
  /** Downloads an object to a file, which has its name only once all of it is there. */
  download(bucket: string, key: string, path: string, options?: TransferOptions): Promise<ObjectInfo>
  /** Begins to read an object, or a range of it. The signal ends the reader, too. */
  reader(bucket: string, key: string, options?: Range & CallOptions): Promise<ObjectReader>
  /** Begins to write an object. The signal aborts it. */
  writer(bucket: string, key: string, options?: Attributes & CallOptions): ObjectWriter
  /** Uploads what a source gives; one that fails stores nothing. Resolves to the bytes. */
  uploadFrom(bucket: string, key: string, source: Source, options?: Attributes & CallOptions): Promise<number>
  /**
   * Reads many objects in order, up to `ahead` of them before they are asked for: those of `keys`, else all below
   * `prefix`.
   */
  readMany(
    bucket: string,
    options?: { keys?: Iterable<string>; prefix?: string; ahead?: number } & CallOptions,
  ): SampleIterator
  /**
   * Lists objects in the order of their keys; by folder, keys that share a beginning up to a slash behind `prefix`
   * are one entry.
   */
  list(bucket: string, prefix?: string, options?: { byFolder?: boolean } & CallOptions): AsyncGenerator<Entry, void, void>
  /** Resolves to the head of an object. */
  stat(bucket: string, key: string, options?: CallOptions): Promise<ObjectInfo>
  /** Copies an object within the service, with its headers. */
  copy(bucket: string, key: string, toBucket: string, toKey: string, options?: CallOptions): Promise<ObjectInfo>
  /** Removes an object; one that is not there counts as removed. */
  delete(bucket: string, key: string, options?: CallOptions): Promise<void>
  /** Removes objects, a thousand in a request. Resolves to those that were not removed. */
  deleteMany(bucket: string, keys: Iterable<string>, options?: CallOptions): Promise<DeleteRefusal[]>
  buckets(options?: CallOptions): Promise<Bucket[]>
  createBucket(bucket: string, options?: CallOptions): Promise<void>
  /** Removes an empty bucket. */
  deleteBucket(bucket: string, options?: CallOptions): Promise<void>
  /** Makes a URL with which the object is read or stored without keys. Nothing is sent. */
  presign(bucket: string, key: string, options?: { seconds?: number; method?: 'GET' | 'PUT' }): string
}

/** Work failed. The message says of what, why, and what to do. */
export class SherdError extends Error {
  /** A word for programs. */
  readonly kind: string
}
/** The service refused a request. */
export class Refused extends SherdError {
  /** HTTP's status. */
  readonly status: number
  /** The service's word, `NoSuchKey`. */
  readonly code: string
  /** The request's id on the server; empty if it gave none. */
  readonly requestId: string
}
/** The bucket or object is not there. */
export class NotFound extends Refused {}
/** The right is lacking, or the keys are not valid. */
export class Denied extends Refused {}
/** No attempt got an answer. */
export class NoAnswer extends SherdError {}
/** The bytes that arrived are not those that were stored. */
export class ChecksumMismatch extends SherdError {}
/** The object was overwritten or removed while it was read. Nothing was written; try again. */
export class ObjectChanged extends SherdError {}
/** The file changed while it was read. Nothing was stored; try again. */
export class SourceChanged extends SherdError {}
/** A file or folder of this machine cannot be used. */
export class LocalFileError extends SherdError {
  /** As of an error of Node.js, `ENOENT`. */
  readonly code: string | null
  readonly errno: number | null
}
/** A name, size or number that cannot be. */
export class InvalidArgument extends SherdError {}
/** Credentials, endpoint or certificates are missing or cannot be used. */
export class ConfigurationError extends SherdError {}
/** The work was cancelled; what it began is cleaned up. */
export class Cancelled extends SherdError {}
/** The client is at fault, or the service answers what no S3 server does. */
export class InternalError extends SherdError {}
