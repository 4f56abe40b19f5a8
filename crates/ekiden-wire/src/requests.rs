//! The requests to the model that a transcript shows, in one pass from its beginning.
//!
//! A transcript has a line for each block of a response, each with the same usage, and lines that hold whole
//! requests, so it may be large. We look only at what counts here in each line, and skip a line that cannot be read.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::{self, Read};
use std::sync::Arc;

use ekiden_core::budget::TokenCounts;
use ekiden_core::time::{Millis, Timestamp};
use memchr::memmem;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::lines::{Line, read_lines};
use crate::spending::nano_usd;
use crate::stream::{ModelUsage, SYNTHETIC};
use crate::tools::ToolKind;
use crate::usage::Usage;

/// A response that took longer was suspended with the machine.
const LATENCY_MAX: Millis = Millis::from_secs(600);

/// How many responses back a line may continue one.
const NEAR: usize = 16;

/// What a transcript says about its session.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Requests {
    /// In the order in which they were answered.
    pub all: Vec<Request>,
    pub compactions: Vec<Compaction>,
    /// The client's figures for the whole session's cost, by model, in billionths of a US dollar.
    pub costs: BTreeMap<String, (TokenCounts, u64)>,
    /// The directory that the session worked in.
    pub dir: Option<String>,
    /// How many items of its own to-do list it ticked, if it kept one.
    pub items_done: Option<u64>,
}

/// A request to the model, with its response. It is small, since months of work have hundreds of thousands of them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Request {
    /// Represents the response's id. Transcripts of forked and resumed sessions may hold the same one.
    pub message: u64,
    pub model: Arc<str>,
    /// When the last block of the response was written.
    pub at: Timestamp,
    pub usage: Usage,
    /// How long the model took, if both ends are known.
    pub latency: Option<Millis>,
    pub calls: u32,
    /// Those calls whose result was an error.
    pub failed_calls: u32,
    /// One of those calls changes files.
    pub edits: bool,
}

/// The client replaced the conversation with a summary.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Compaction {
    pub at: Timestamp,
    /// No person asked for it.
    pub automatic: bool,
    /// The conversation before and after, in tokens.
    pub before_tokens: u64,
    pub after_tokens: u64,
}

impl Requests {
    pub fn read(transcript: impl Read) -> io::Result<Self> {
        let mut reader = Reader::default();
        read_lines(transcript, |line| reader.take(line))?;
        Ok(reader.read)
    }
}

#[derive(Default)]
struct Reader {
    read: Requests,
    /// When the model last received something to answer.
    asked: Option<Timestamp>,
    /// The same for the last request.
    began: Option<Timestamp>,
    /// The request of each call without a result so far.
    calls: BTreeMap<String, usize>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct TranscriptLine<'a> {
    #[serde(rename = "type", borrow)]
    kind: Cow<'a, str>,
    subtype: Option<Cow<'a, str>>,
    timestamp: Option<Cow<'a, str>>,
    cwd: Option<Cow<'a, str>>,
    #[serde(borrow)]
    message: Option<&'a RawValue>,
    #[serde(borrow)]
    compact_metadata: Option<&'a RawValue>,
    #[serde(borrow)]
    model_usage: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Response<'a> {
    id: String,
    model: String,
    usage: Usage,
    #[serde(borrow)]
    content: &'a RawValue,
}

#[derive(Deserialize)]
struct Prompt<'a> {
    #[serde(borrow)]
    content: &'a RawValue,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
struct Block<'a> {
    #[serde(rename = "type", borrow)]
    kind: Cow<'a, str>,
    id: Option<String>,
    name: Option<Cow<'a, str>>,
    tool_use_id: Option<Cow<'a, str>>,
    is_error: Option<bool>,
    #[serde(borrow)]
    input: Option<&'a RawValue>,
}

/// A whole to-do list, or one item of it.
#[derive(Deserialize)]
struct Todos<'a> {
    #[serde(default, borrow)]
    todos: Vec<Todo<'a>>,
    #[serde(flatten, borrow)]
    item: Todo<'a>,
}

#[derive(Deserialize)]
struct Todo<'a> {
    status: Option<Cow<'a, str>>,
}

impl Todo<'_> {
    fn is_done(&self) -> bool {
        self.status.as_deref() == Some("completed")
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct CompactMetadata {
    trigger: Option<String>,
    #[serde(default)]
    pre_tokens: u64,
    #[serde(default)]
    post_tokens: u64,
}

impl Reader {
    fn take(&mut self, line: Line<'_>) {
        let Line::Whole(line) = line else { return };
        // Half of most transcripts are requests as they were sent, which contain everything that other lines do.
        if memmem::find(&line[..line.len().min(64)], b"\"api-request").is_some() {
            return;
        }
        let Ok(line) = serde_json::from_slice::<TranscriptLine<'_>>(line) else {
            return;
        };
        if self.read.dir.is_none() {
            self.read.dir = line.cwd.as_deref().map(str::to_owned);
        }
        let at = line.timestamp.as_deref().and_then(Timestamp::parse_rfc3339);
        match (&*line.kind, line.subtype.as_deref()) {
            ("assistant", _) => self.response(line.message, at),
            ("user", _) => self.given(line.message, at),
            ("system", Some("compact_boundary")) => self.compacted(line.compact_metadata, at),
            ("cost-state", _) => self.cost(line.model_usage),
            _ => {}
        }
    }

    fn response(&mut self, message: Option<&RawValue>, at: Option<Timestamp>) {
        let response = message.and_then(|message| serde_json::from_str(message.get()).ok());
        let Some(response) = response.filter(|response: &Response<'_>| response.model != SYNTHETIC)
        else {
            return;
        };
        let message = hash(&response.id);
        // Lines of a subagent may stand between those of one response.
        let mut index = self.read.all.len();
        let near = index.saturating_sub(NEAR);
        let known = &self.read.all[near..];
        if let Some(known) = known.iter().rposition(|known| known.message == message) {
            index = near + known;
        } else {
            let model = self.read.all.last().map(|last| &last.model);
            let model = model.filter(|model| ***model == *response.model);
            let request = Request {
                message,
                model: model.map_or_else(|| response.model.into(), Arc::clone),
                ..Request::default()
            };
            self.began = self.asked;
            self.read.all.push(request);
        }
        let request = &mut self.read.all[index];
        request.usage = response.usage;
        if let Some(at) = at {
            request.at = at;
            let latency = self.began.map(|began| at.since(began));
            request.latency = latency.filter(|latency| *latency <= LATENCY_MAX);
        }
        for block in blocks(response.content, "tool_use") {
            request.calls += 1;
            let kind = block.name.as_deref().map(ToolKind::of);
            request.edits |= kind == Some(ToolKind::Edit);
            ticked(&block, &mut self.read.items_done);
            self.calls.extend(block.id.map(|id| (id, index)));
        }
    }

    /// A prompt, or the results of calls.
    fn given(&mut self, message: Option<&RawValue>, at: Option<Timestamp>) {
        self.asked = at.or(self.asked);
        let prompt = message.and_then(|message| serde_json::from_str(message.get()).ok());
        let Some(Prompt { content }) = prompt else {
            return;
        };
        for block in blocks(content, "tool_result") {
            let call = block.tool_use_id.as_deref();
            let index = call.and_then(|call| self.calls.remove(call));
            if let Some(index) = index.filter(|_| block.is_error == Some(true)) {
                self.read.all[index].failed_calls += 1;
            }
        }
    }

    fn compacted(&mut self, metadata: Option<&RawValue>, at: Option<Timestamp>) {
        let metadata = metadata.and_then(|metadata| serde_json::from_str(metadata.get()).ok());
        if let Some(CompactMetadata {
            trigger,
            pre_tokens,
            post_tokens,
        }) = metadata
        {
            self.read.compactions.push(Compaction {
                at: at.unwrap_or_default(),
                automatic: trigger.as_deref() != Some("manual"),
                before_tokens: pre_tokens,
                after_tokens: post_tokens,
            });
        }
    }

    fn cost(&mut self, usage: Option<&RawValue>) {
        let models: Option<BTreeMap<String, ModelUsage>> =
            usage.and_then(|usage| serde_json::from_str(usage.get()).ok());
        for (model, cost) in models.into_iter().flatten() {
            self.read
                .costs
                .insert(model, (cost.counts(), nano_usd(cost.cost_usd)));
        }
    }
}

/// The same for the same text, whenever the program runs.
fn hash(text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}

/// Counts the items that a call ticked. One kind of call passes the whole list each time, another one item.
fn ticked(call: &Block<'_>, done: &mut Option<u64>) {
    let name = call.name.as_deref().unwrap_or_default();
    if !matches!(name, "TodoWrite" | "TaskCreate" | "TaskUpdate") {
        return;
    }
    let input = call
        .input
        .and_then(|input| serde_json::from_str(input.get()).ok());
    let Some(Todos { todos, item }) = input else {
        return;
    };
    let done = done.get_or_insert(0);
    let listed = todos.iter().filter(|todo| todo.is_done()).count();
    *done = (*done).max(listed as u64) + u64::from(item.is_done());
}

/// The blocks of this kind. Content may be a plain text, which has none.
fn blocks<'a>(content: &'a RawValue, kind: &'static str) -> impl Iterator<Item = Block<'a>> {
    let content = content.get();
    let holds = memmem::find(content.as_bytes(), kind.as_bytes()).is_some();
    let blocks = holds.then(|| serde_json::from_str::<Vec<Block<'a>>>(content).ok());
    let blocks = blocks.flatten().into_iter().flatten();
    blocks.filter(move |block| block.kind == kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(lines: &[&str]) -> Requests {
        Requests::read(lines.join("\n").as_bytes()).unwrap()
    }

    const ASKED: &str = r#"{"type":"user","cwd":"/work/shop","timestamp":"2026-11-21T06:00:00.000Z","message":{"role":"user","content":"go \"tool_result\""}}"#;
    const WORDS: &str = r#"{"type":"assistant","timestamp":"2026-11-21T06:00:04.000Z","message":{"id":"m1","model":"opus","content":[{"type":"text","text":"a"}],"usage":{"input_tokens":10,"cache_read_input_tokens":39990,"cache_creation_input_tokens":null,"output_tokens":5}}}"#;
    const CALLS: &str = r#"{"type":"assistant","timestamp":"2026-11-21T06:00:05.000Z","message":{"id":"m1","model":"opus","content":[{"type":"tool_use","id":"t1","name":"Edit","input":{"type":"tool_use"}},{"type":"tool_use","id":"t2","name":"Bash","input":{}}],"usage":{"input_tokens":10,"cache_read_input_tokens":39990,"output_tokens":7}}}"#;
    const RESULT: &str = r#"{"type":"user","timestamp":"2026-11-21T06:00:09.000Z","message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"t2","is_error":true},{"type":"tool_result","tool_use_id":"t1","is_error":false}]}}"#;

    // shows: EST-07, UIX-09
    #[test]
    fn a_request_has_its_tokens_its_time_and_its_calls() {
        let read = read(&[ASKED, WORDS, CALLS, RESULT]);
        assert_eq!(read.dir.as_deref(), Some("/work/shop"));
        let [request] = &read.all[..] else {
            panic!("{read:?}")
        };
        assert_eq!(request.usage.context_tokens(), 40_000);
        assert_eq!(request.usage.output, 7, "the last line counts");
        assert_eq!(request.latency, Some(Millis(5_000)));
        assert_eq!(
            (request.calls, request.failed_calls, request.edits),
            (2, 1, true)
        );
    }

    // shows: UIX-09
    #[test]
    fn a_subagent_may_answer_between_the_lines_of_a_response() {
        let other = WORDS.replace("m1", "m2");
        let read = read(&[ASKED, WORDS, &other, CALLS, RESULT]);
        let written: Vec<u64> = read.all.iter().map(|one| one.usage.output).collect();
        assert_eq!(written, [7, 5]);
        assert_eq!(read.all[0].failed_calls, 1);
    }

    // shows: UIX-09
    #[test]
    fn compactions_and_costs_are_told_by_the_client() {
        let read = read(&[
            r#"{"type":"system","subtype":"compact_boundary","timestamp":"2026-11-21T06:00:00Z","compactMetadata":{"trigger":"auto","preTokens":125033,"postTokens":7689}}"#,
            r#"{"type":"system","subtype":"compact_boundary","compactMetadata":{"trigger":"manual"}}"#,
            r#"{"type":"cost-state","modelUsage":{"opus":{"inputTokens":110,"outputTokens":55,"cacheReadInputTokens":449890,"costUSD":0.091518}}}"#,
        ]);
        let told: Vec<_> = read
            .compactions
            .iter()
            .map(|one| (one.automatic, one.before_tokens, one.after_tokens))
            .collect();
        assert_eq!(told, [(true, 125_033, 7_689), (false, 0, 0)]);
        let (tokens, nano_usd) = read.costs["opus"];
        assert_eq!((tokens.cache_read, nano_usd), (449_890, 91_518_000));
    }

    // shows: UIX-09
    #[test]
    fn ticked_items_are_counted_in_both_forms_of_the_list() {
        let call = |name: &str, input: &str| {
            CALLS.replace(
                "Bash\",\"input\":{}",
                &format!("{name}\",\"input\":{input}"),
            )
        };
        let whole = r#"{"todos":[{"content":"a","status":"completed"},{"content":"b","status":"pending"}]}"#;
        let done = whole.replace("pending", "completed");
        let update = r#"{"taskId":"1","status":"completed"}"#;
        let begun = r#"{"taskId":"2","status":"in_progress"}"#;
        let ticked = |lines: &[String]| {
            read(&lines.iter().map(String::as_str).collect::<Vec<_>>()).items_done
        };
        assert_eq!(ticked(&[CALLS.to_owned()]), None, "it keeps no list");
        let lists = [whole, whole, &done].map(|list| call("TodoWrite", list));
        assert_eq!(ticked(&lists), Some(2));
        let create = call("TaskCreate", r#"{"subject":"a"}"#);
        assert_eq!(ticked(std::slice::from_ref(&create)), Some(0));
        let items = [
            create,
            call("TaskUpdate", begun),
            call("TaskUpdate", update),
        ];
        assert_eq!(ticked(&items), Some(1));
        assert_eq!(ticked(&[call("TodoWrite", "[]")]), None);
    }

    /// A gigabyte of transcripts holds a hundred thousand and more of them at once.
    // shows: EST-07
    #[test]
    fn a_request_is_small() {
        assert!(size_of::<Request>() <= 120, "{}", size_of::<Request>());
    }

    #[test]
    fn lines_that_cannot_be_read_are_passed_over() {
        let blob = r#"{"type":"api-request-blob","message":{"id":"m2","model":"opus","usage":{}}}"#;
        let synthetic = WORDS.replace("opus", SYNTHETIC);
        let torn = &CALLS[..80];
        let odd = r#"{"type":"assistant","message":{"id":7}}"#;
        let read = read(&["", "[]", "null", blob, &synthetic, odd, WORDS, torn]);
        assert_eq!(read.all.len(), 1);
        assert_eq!(read.all[0].latency, None, "nobody knows when it began");
    }

    #[test]
    fn a_machine_that_slept_is_not_a_slow_model() {
        let later = CALLS.replace("06:00:05", "09:00:05");
        assert_eq!(read(&[ASKED, &later]).all[0].latency, None);
    }
}
