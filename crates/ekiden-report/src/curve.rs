//! A session's context over time, and the tools that it used: from its saved event stream.
//!
//! Streams hold no times. The log has some: when an attempt began and ended, and when its context reached a level.
//! Between these, the responses are spread evenly. Without a stream, the log's own points are the curve.

use std::collections::{BTreeMap, HashMap};
use std::io::{self, Read};

use ekiden_core::time::{Millis, Timestamp};
use ekiden_wire::lines::read_lines;
use ekiden_wire::rpc::marked_attempt;
use ekiden_wire::saved::Saved;
use ekiden_wire::stream::{Block, ClientEvent};
use ekiden_wire::usage::ContextMeter;

use crate::timeline::{Attempt, Timeline};

/// Points of one plot; more are indistinguishable.
pub const POINTS_MAX: usize = 2_000;
/// Names of tools and skills that are counted; an agent could invent any number.
const NAMES_MAX: usize = 200;
/// Calls that may wait for their results.
const CALLS_OPEN_MAX: usize = 10_000;

/// The data read from a run's event streams.
#[derive(Debug, Default)]
pub struct Streams {
    /// The context of each response, in tokens, by attempts of a session, keyed by the place of its stage and its
    /// number.
    responses: BTreeMap<(usize, u32), BTreeMap<u32, Vec<u64>>>,
    pub tools: BTreeMap<String, Uses>,
    pub skills: BTreeMap<String, Uses>,
    /// Sessions whose streams were not read: they are gone, or there are too many.
    pub left_out: usize,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Uses {
    pub calls: u64,
    pub failed: u64,
}

/// A point of a curve. Points of one attempt belong together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Point {
    pub at: Timestamp,
    pub tokens: u64,
    /// The line that it belongs to; each attempt has one.
    pub line: usize,
}

impl Streams {
    /// Reads the stream of a session. Unreadable parts are left out.
    pub fn read(&mut self, stage: usize, session: u32, stream: impl Read) -> io::Result<()> {
        let (mut context, mut open) = (ContextMeter::default(), HashMap::new());
        let mut attempts = BTreeMap::<u32, Contexts>::new();
        let (mut attempt, mut saved) = (1, Saved::default());
        let read = read_lines(stream, |line| {
            attempt = marked_attempt(line).unwrap_or(attempt);
            saved.read(line, |event| {
                let contexts = attempts.entry(attempt).or_default();
                contexts.take(event, context.observe(event));
                self.count(event, &mut open);
            });
        });
        let attempts = attempts.into_iter();
        let responses = attempts.map(|(attempt, contexts)| (attempt, contexts.best()));
        let responses = responses.collect();
        self.responses.insert((stage, session), responses);
        read
    }

    fn count(&mut self, event: &ClientEvent, open: &mut HashMap<String, (bool, String)>) {
        if let ClientEvent::Assistant(response) = event {
            for block in &response.blocks {
                let Block::Call(call) = block else { continue };
                let (is_skill, name) = match call.name.as_str() {
                    "Skill" if !call.target.is_empty() => (true, call.target.clone()),
                    name => (false, name.to_owned()),
                };
                if let Some(uses) = self.uses(is_skill, &name) {
                    uses.calls += 1;
                    if open.len() < CALLS_OPEN_MAX {
                        open.insert(call.id.clone(), (is_skill, name));
                    }
                }
            }
        } else if let ClientEvent::ToolResults(results) = event {
            for result in results {
                if let Some((is_skill, name)) = open.remove(&result.tool_use_id)
                    && result.is_error
                    && let Some(uses) = self.uses(is_skill, &name)
                {
                    uses.failed += 1;
                }
            }
        }
    }

    fn uses(&mut self, is_skill: bool, name: &str) -> Option<&mut Uses> {
        let all = if is_skill {
            &mut self.skills
        } else {
            &mut self.tools
        };
        let has_room = all.len() < NAMES_MAX || all.contains_key(name);
        has_room.then(|| all.entry(name.to_owned()).or_default())
    }

    /// The context of a stage's sessions, at most [`POINTS_MAX`] points. Thinning out a stretch keeps its
    /// lowest and its highest point, so every peak stays.
    pub fn curve(&self, timeline: &Timeline, stage: usize) -> Vec<Point> {
        let (mut points, mut line) = (Vec::new(), 0);
        for session in &timeline.stages[stage].sessions {
            let responses = self.responses.get(&(stage, session.number));
            for attempt in &session.attempts {
                let own = responses.and_then(|attempts| attempts.get(&attempt.number));
                let own = own.map_or(&[][..], Vec::as_slice);
                let of_attempt = points_of(attempt, own, timeline.last);
                points.extend(of_attempt.into_iter().map(|(at, tokens)| Point {
                    at,
                    tokens,
                    line,
                }));
                line += 1;
            }
        }
        thinned(points)
    }
}

/// The contexts that an attempt's stream shows.
#[derive(Default)]
struct Contexts {
    /// As the agent reports them.
    told: Vec<u64>,
    /// By the usage of each response. If the agent reports its context, only an estimate.
    of_responses: Vec<u64>,
}

impl Contexts {
    fn take(&mut self, event: &ClientEvent, tokens: Option<u64>) {
        let is_told = matches!(event, ClientEvent::Context { .. });
        let into = match is_told {
            true => &mut self.told,
            false => &mut self.of_responses,
        };
        into.extend(tokens);
    }

    fn best(self) -> Vec<u64> {
        match self.told.is_empty() {
            true => self.of_responses,
            false => self.told,
        }
    }
}

fn points_of(attempt: &Attempt, responses: &[u64], now: Timestamp) -> Vec<(Timestamp, u64)> {
    let end = attempt.end.as_ref();
    let over = end.map_or(now, |end| end.at);
    let mut points = Vec::new();
    if !attempt.resumes {
        points.push((attempt.began, 0));
    }
    let crossings = attempt.crossings.iter();
    if responses.is_empty() {
        points.extend(crossings.map(|crossing| (crossing.at, crossing.usage_tokens)));
        points.extend(end.map(|end| (over, end.counters.usage_tokens)));
        return points;
    }
    // Known times, each with the number of responses by then.
    let mut known = vec![(0, attempt.began)];
    for crossing in crossings {
        let from = known.last().map_or(0, |(count, _)| *count);
        let reached = responses
            .iter()
            .skip(from)
            .position(|tokens| *tokens >= crossing.usage_tokens);
        known.extend(reached.map(|place| (from + place + 1, crossing.at)));
    }
    known.push((responses.len(), over));
    for ends in known.windows(2) {
        let ((from, began), (to, ended)) = (ends[0], ends[1]);
        let length = ended.since(began).0;
        points.extend((from..to).map(|place| {
            let part = (place - from + 1) as u64;
            let after = length / (to - from) as u64 * part;
            (began + Millis(after), responses[place])
        }));
    }
    points
}

fn thinned(points: Vec<Point>) -> Vec<Point> {
    if points.len() <= POINTS_MAX {
        return points;
    }
    let stretch = (2 * points.len()).div_ceil(POINTS_MAX);
    let ends = points.chunks(stretch).flat_map(|stretch| {
        let low = (0..stretch.len())
            .min_by_key(|at| stretch[*at].tokens)
            .unwrap_or(0);
        let high = (0..stretch.len())
            .max_by_key(|at| stretch[*at].tokens)
            .unwrap_or(0);
        [low.min(high), low.max(high)].map(|at| stretch[at])
    });
    ends.collect()
}

#[cfg(test)]
mod tests {
    use ekiden_wire::rpc::attempt_mark;

    use super::*;

    fn attempt() -> Attempt {
        use ekiden_core::guard::Level;
        Attempt {
            number: 1,
            began: Timestamp(0),
            resumes: false,
            is_heard: true,
            model: None,
            window: None,
            crossings: vec![crate::timeline::Crossing {
                at: Timestamp(900),
                level: Level::L1,
                usage_tokens: 50,
            }],
            ordered: None,
            end: None,
        }
    }

    // shows: REL-27
    #[test]
    fn responses_lie_evenly_between_the_times_that_are_known() {
        let points = points_of(&attempt(), &[10, 30, 55, 70], Timestamp(1_000));
        let points: Vec<(u64, u64)> = points.iter().map(|(at, tokens)| (at.0, *tokens)).collect();
        assert_eq!(
            points,
            [(0, 0), (300, 10), (600, 30), (900, 55), (1_000, 70)]
        );
        let of_log = points_of(&attempt(), &[], Timestamp(1_000));
        assert_eq!(of_log, [(Timestamp(0), 0), (Timestamp(900), 50)]);
    }

    // shows: REL-27
    #[test]
    fn a_long_curve_keeps_its_peaks() {
        let points = (0..100_000).map(|at| Point {
            at: Timestamp(at),
            tokens: if at == 77_777 { 9_999_999 } else { at % 100 },
            line: 0,
        });
        let thinned = thinned(points.collect());
        assert!(thinned.len() <= POINTS_MAX);
        assert!(thinned.iter().any(|point| point.tokens == 9_999_999));
    }

    // shows: REL-27
    #[test]
    fn tools_and_skills_are_counted_with_their_failures() {
        let stream = concat!(
            r#"{"type":"assistant","message":{"id":"m1","model":"m","usage":{"input_tokens":7},"content":[{"type":"tool_use","id":"t1","name":"Bash","input":{"command":"x"}},{"type":"tool_use","id":"t2","name":"Skill","input":{"skill":"pdf"}}]},"parent_tool_use_id":null}"#,
            "\n",
            r#"{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"t1","is_error":true,"content":"no"}]},"parent_tool_use_id":null}"#,
            "\n{\"type\":\"assis",
        );
        let mut streams = Streams::default();
        streams.read(0, 1, stream.as_bytes()).unwrap();
        let uses = |calls, failed| Uses { calls, failed };
        assert_eq!(streams.tools["Bash"], uses(1, 1));
        assert_eq!(streams.skills["pdf"], uses(1, 0));
        assert_eq!(streams.responses[&(0, 1)], [(1, vec![7])].into());
    }

    /// Codex reports the context after each call, and reports it again when a thread is resumed.
    // shows: REL-27, AGT-16
    #[test]
    fn each_attempt_has_the_contexts_that_its_agent_reported() {
        let used = |tokens: u64| {
            format!(
                r#"{{"method":"thread/tokenUsage/updated","params":{{"threadId":"t","tokenUsage":{{"last":{{"inputTokens":{tokens},"outputTokens":1}}}}}}}}"#
            )
        };
        let begun = r#"{"id":1,"result":{"userAgent":"codex"}}
{"id":2,"result":{"thread":{"id":"t"}}}
{"method":"turn/started","params":{"threadId":"t","turn":{"id":"u"}}}"#;
        let first = [begun.to_owned(), used(10), used(20), attempt_mark(2)].join("\n");
        // The second never answered, the third never began.
        let stream = [first, attempt_mark(4), begun.to_owned(), used(30)].join("\n");
        let mut streams = Streams::default();
        streams.read(0, 1, stream.as_bytes()).unwrap();
        assert_eq!(
            streams.responses[&(0, 1)],
            [(1, vec![11, 21]), (2, Vec::new()), (4, vec![31])].into()
        );
    }
}
