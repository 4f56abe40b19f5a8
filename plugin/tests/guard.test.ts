// `claude plugin test plugin`: the mod against stand-ins for the client and for `ekiden hook`.
import { expect, test } from 'claude-code/testing'

const WATCH = {
  sign: '/s/sign', log: '/s/log', logBytes: 0, from: 0, to: 120_000, usable: 200_000, levels: [140_000, 170_000, 190_000],
}
const REFUSAL = { hookSpecificOutput: { permissionDecision: 'deny', permissionDecisionReason: 'Write the handoff first.' } }
const CALL = { tool: 'Bash', command: 'true', description: 'x' } as const

type Run = { argv: string[]; init: { timeoutMs: number } }

// So many tokens are in the context, and `ekiden hook EVENT` answers this after so long; without an answer it cannot be
// run. Returns the events that it was asked for.
function client(on: any, tokens: number, answers: Record<string, object>, takesMs = 0): string[] {
  const asked: string[] = []
  const context = { tokens, window: 233_000, percent: 0 }
  on('session.id', () => ({ value: 'session' }))
  on('session.cwd', () => ({ value: '/project' }))
  on('session.usage', () => ({ value: { startedAt: 0, context, rateLimits: [] } }))
  on('process.hookEnv', () => ({ value: {} }))
  on('fs.write', () => ({ value: undefined }))
  on('fs.exists', () => ({ value: false }))
  on('process.run', (_: unknown, { argv: [, , event = ''], init }: Run) => {
    asked.push(event)
    if (init.timeoutMs < takesMs) throw new Error('timed out')
    const answer = answers[event]
    if (answer === undefined) throw new Error('no such program')
    return { value: { stdout: JSON.stringify({ answer, watch: WATCH }), stderr: '', code: 0 } }
  })
  on('tool.call', () => ({ result: { stdout: 'it ran' } }))
  return asked
}

test('between two levels no process is started for a call', async ($: any, on: any) => {
  const asked = client(on, 100_000, { Watch: {} })
  for (let n = 0; n < 3; n++) expect(JSON.stringify(await $.tool.call(CALL))).toContain('it ran')
  expect(asked).toEqual(['Watch'])
})

test('at L3 a call is refused before it runs, on a slow machine too', async ($: any, on: any) => {
  const asked = client(on, 195_000, { Watch: {}, PreToolUse: REFUSAL }, 5_000)
  const result = JSON.stringify(await $.tool.call(CALL))
  expect(asked).toEqual(['Watch', 'PreToolUse'])
  expect(result).toContain('Write the handoff first.')
  expect(result).not.toContain('it ran')
})

test('a call of a subagent is not refused', async ($: any, on: any) => {
  const asked = client(on, 195_000, { Watch: {}, PreToolUse: REFUSAL })
  expect(JSON.stringify(await $.tool.call({ ...CALL, agentId: 'a' }))).toContain('it ran')
  expect(asked).toEqual([])
})

test('where the program cannot be run everything goes on', async ($: any, on: any) => {
  client(on, 195_000, {})
  expect(JSON.stringify(await $.tool.call(CALL))).toContain('it ran')
})
