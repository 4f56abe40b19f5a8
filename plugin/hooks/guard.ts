// The guard inside Claude Code. It knows no rule: `ekiden hook EVENT --mod` decides, and returns a range of context use in
// which nothing is crossed. Within it this mod starts no process, and the shell hooks beside it stand aside.
//
// It fails open. Without a sign of life the shell hooks do everything, as in a client without mods.
import type { EngineInterface, Register } from 'claude-code'
import type { Watch } from '../types/guard'

const PROGRAM = 'ekiden'
const FLAGS = ['--mod', '--plugin']
const WATCH = { plugin: 'ekiden', key: 'watch' } as const
const TURN = { plugin: 'ekiden', key: 'turn' } as const
const IDLE_LOOK_MS = 2_000
// A shell hook has 10 s. Nobody tells what comes too late.
const PATIENCE_MS = 8_000
// A checkpoint is written before a conversation is replaced.
const COMPACTION_PATIENCE_MS = 25_000

type Answer = {
  compact?: string
  decision?: string
  reason?: string
  continue?: boolean
  stopReason?: string
  systemMessage?: string
  hookSpecificOutput?: { additionalContext?: string; permissionDecision?: string; permissionDecisionReason?: string }
}

async function ask($: EngineInterface, event: string, input: object): Promise<Answer> {
  const session = await $.session.id()
  const { context } = await $.session.usage()
  const told = { cwd: await $.session.cwd(), ...input, session_id: session, hook_event_name: event, context }
  const timeoutMs = event === 'PreCompact' ? COMPACTION_PATIENCE_MS : PATIENCE_MS
  const init = { stdin: JSON.stringify(told), env: await $.process.hookEnv(), timeoutMs }
  const { stdout } = await $.process.run([PROGRAM, 'hook', event, ...FLAGS], init)
  const said = stdout.trim() === '' ? {} : JSON.parse(stdout)
  await $.state.set(WATCH, { session, ...said.watch })
  const answer: Answer = said.answer ?? {}
  for (const line of answer.systemMessage?.split('\n') ?? []) $.ui.log(line)
  return answer
}

// What is known about this session, after renewing the sign of life; undefined if it is not watched.
async function watching($: EngineInterface): Promise<Watch | undefined> {
  const session = await $.session.id()
  let { value } = await $.state.get(WATCH)
  if (value?.session !== session) {
    await ask($, 'Watch', {})
    value = (await $.state.get(WATCH)).value
  }
  if (value?.sign === undefined) return undefined
  await $.fs.write(value.sign, '')
  return value
}

async function logGrew($: EngineInterface, watch: Watch): Promise<boolean> {
  const bytes = (await $.fs.exists(watch.log!)) ? (await $.fs.stat(watch.log!)).size : 0
  return bytes !== watch.logBytes
}

async function crossed($: EngineInterface, watch: Watch): Promise<boolean> {
  const { context } = await $.session.usage()
  // Right after a compaction the use is unknown.
  if (context.tokens === undefined) return false
  if (watch.from == null || context.tokens < watch.from) return true
  const outside = watch.to != null && context.tokens >= watch.to
  return outside || logGrew($, watch)
}

async function show($: EngineInterface): Promise<void> {
  const { value } = await $.state.get(WATCH)
  const { context } = await $.session.usage()
  if (!value?.line || context.tokens === undefined) return
  const level = value.levels!.filter(from => context.tokens! >= from).length
  $.ui.status(`context ${Math.floor((context.tokens * 100) / value.usable!)}% L${level}`)
}

async function idle($: EngineInterface): Promise<void> {
  const { value: running } = await $.state.get(TURN)
  const { value: watch } = await $.state.get(WATCH)
  if (running || watch?.sign === undefined || !(watch.idles || (await logGrew($, watch)))) return
  const text = (await ask($, 'Idle', {})).hookSpecificOutput?.additionalContext
  if (text) await $.prompt.submit({ text })
}

function merged<R extends object>(result: R, said: Answer | undefined): R {
  if (said === undefined) return result
  const text = said.hookSpecificOutput?.additionalContext
  const before = (result as { additionalContext?: string[] }).additionalContext ?? []
  return {
    ...result,
    ...(text && { additionalContext: [...before, text] }),
    ...(said.decision === 'block' && { block: said.reason }),
    ...(said.continue === false && { preventContinuation: true, stopReason: said.stopReason }),
  }
}

export const register: Register = on => {
  on('session.start', async ($, e, next) => {
    const started = await next(e)
    if (e.isInteractive) $.clock.every(IDLE_LOOK_MS, () => { void idle($).catch(() => undefined) })
    return started
  }).catch(($, e, next) => next(e))

  on('turn.start', async ($, e, next) => {
    if (e.agentId === undefined) await $.state.set(TURN, true)
    return next(e)
  }).catch(($, e, next) => next(e))

  on('turn.complete', async ($, e, next) => {
    const result = await next(e)
    if (e.agentId === undefined) await $.state.set(TURN, false)
    return result
  }).catch(($, e, next) => next(e))

  // At L3 a call is refused before it runs; below L3, the end of its batch gives the messages.
  on('tool.call', async ($, e, next) => {
    const watch = e.agentId === undefined ? await watching($) : undefined
    const { context } = await $.session.usage()
    const full = watch?.levels?.[2] ?? Infinity
    if (watch === undefined || (context.tokens ?? 0) < full) return next(e)
    if (!watch.refuses && !(await crossed($, watch))) return next(e)
    const { tool, tool_use_id, ...tool_input } = e
    const said = await ask($, 'PreToolUse', { tool_name: tool, tool_use_id, tool_input })
    const { permissionDecision, permissionDecisionReason, additionalContext } = said.hookSpecificOutput ?? {}
    if (permissionDecision === 'deny') return { deny: permissionDecisionReason ?? '' }
    const result = await next(e)
    if (additionalContext === undefined || result.deny !== undefined) return result
    return { ...result, context: [...(result.context ?? []), additionalContext] }
  }).catch(($, e, next) => next(e))

  on('classic.PostToolBatch', async ($, e, next) => {
    const watch = e.agent_id === undefined ? await watching($) : undefined
    const result = await next(e)
    if (watch === undefined) return result
    const said = await crossed($, watch)
      .then(is => (is || watch.everyBatch ? ask($, 'PostToolBatch', e) : undefined))
      .catch(() => undefined)
    await show($).catch(() => undefined)
    return merged(result, said)
  }).catch(($, e, next) => next(e))

  on('classic.Stop', async ($, e, next) => {
    const watch = await watching($)
    const result = await next(e)
    if (watch === undefined) return result
    const said = await ask($, 'Stop', e).catch(() => undefined)
    await show($).catch(() => undefined)
    return merged(result, said)
  }).catch(($, e, next) => next(e))

  on('session.compact', async ($, e, next) => {
    if (e.agentId !== undefined || e.trigger === 'precompute') return next(e)
    const watch = await watching($)
    const text = watch && (await ask($, 'PreCompact', { trigger: e.trigger })).compact
    return text ? { messages: [{ role: 'user', text, toolUses: [] }] } : next(e)
  }).catch(($, e, next) => next(e))
}
