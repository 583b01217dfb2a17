// Objects of one bucket behind Express: bodies pass through in pieces, whatever their size.
//
//     npm install sherd-client express
//     SHERD_BUCKET=photos PORT=8000 node express-app.mjs

import { pipeline } from 'node:stream/promises'
import express from 'express'
import { Client, NotFound } from 'sherd-client'

const bucket = process.env.SHERD_BUCKET ?? 'files'
// The endpoint and keys of AWS's variables and profiles.
const client = new Client()
const app = express()

/** @param {express.Request} request */
const keyOf = (request) => [request.params.key].flat().join('/')

/** @param {import('sherd-client').ObjectInfo} info */
const headersOf = ({ bytes, etag, contentType }) => ({
  'content-length': String(bytes),
  'content-type': contentType ?? 'application/octet-stream',
  etag,
})

app.head('/files/*key', async (request, response) => {
  response.set(headersOf(await client.stat(bucket, keyOf(request)))).end()
})

// Sends an object as it arrives.
app.get('/files/*key', async (request, response) => {
  const reader = await client.reader(bucket, keyOf(request))
  response.set(headersOf(reader.info))
  await pipeline(reader.stream(), response)
})

// Stores a body as it arrives; one that breaks off stores nothing.
app.put('/files/*key', async (request, response) => {
  const contentType = request.get('content-type')
  response.json({ bytes: await client.uploadFrom(bucket, keyOf(request), request, { contentType }) })
})

/** @type {express.ErrorRequestHandler} */
const absent = (error, request, response, next) => {
  if (!(error instanceof NotFound) || response.headersSent) return next(error)
  response.status(404).json({ detail: error.message })
}
app.use(absent)

const server = app.listen(Number(process.env.PORT ?? 8000), '127.0.0.1', () => {
  const address = server.address()
  console.log(`ready http://127.0.0.1:${typeof address === 'object' ? address?.port : address}`)
})
