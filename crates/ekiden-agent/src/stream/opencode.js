// Loaded by opencode where it is driven by ekiden: tells after each call of the model how full the context is, and when a
// call is to be tried again. By its protocol opencode tells the one at the end of a turn, and the other never.

export const ekiden = async ({ client }) => {
  if (!process.argv.includes("acp")) return {}
  const tell = (method, params) => process.stdout.write(JSON.stringify({ jsonrpc: "2.0", method, params }) + "\n")
  const answers = new Map()
  let providers
  const size = async ({ providerID, modelID } = {}) => {
    providers ??= client.config.providers().then((told) => told.data.providers)
    const provider = (await providers).find((known) => known.id === providerID)
    return provider?.models[modelID]?.limit?.context
  }
  const event = async ({ event: { type, properties } }) => {
    const { sessionID: sessionId, info, part, status } = properties
    if (type === "message.updated" && info.role === "assistant") answers.set(info.id, info)
    if (type === "message.part.updated" && part.type === "step-finish") {
      const { input, cache } = part.tokens
      const window = await size(answers.get(part.messageID)).catch(() => undefined)
      tell("_ekiden/context", { sessionId, used: input + cache.read + cache.write, size: window })
    }
    if (type === "session.status" && status.type === "retry") {
      const { attempt, message, next } = status
      const resetsAt = Math.ceil(next / 1000)
      tell("_ekiden/retry", { sessionId, attempt, message, resetsAt, waitsMs: next - Date.now() })
    }
  }
  return { event }
}
