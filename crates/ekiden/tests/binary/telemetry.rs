//! Spans and metrics as a collector gets them: decoded by the published definitions.

use std::collections::{BTreeMap, BTreeSet};
use std::net::TcpListener;

use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value as Number;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message as _;
use rustix::process::Signal;

use crate::environment::{Environment, items, slow_items};
use crate::fallback::with_accounts;
use crate::plan::{EXECUTE, plan, repository, stage};
use crate::receiver::{Posted, Receiver};
use crate::running::wait_until;

const RUN: [&str; 4] = ["run", "task.md", "--agent", "rehearsal"];
const ENDPOINT: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";
/// Attributes whose values are the same in every run.
const SHOWN: [&str; 10] = [
    "ekiden.run.outcome",
    "ekiden.stage.state",
    "ekiden.session.number",
    "ekiden.session.left",
    "ekiden.attempt.end",
    "ekiden.verification.outcome",
    "ekiden.merge.outcome",
    "ekiden.checkpoint.reason",
    "ekiden.wait.cause",
    "error.type",
];

fn collector() -> Receiver {
    Receiver::answering(&["200 OK"])
}

fn to<'a>(posted: &'a [Posted], path: &str) -> impl Iterator<Item = &'a Posted> {
    let line = format!("POST {path} HTTP/1.1");
    posted.iter().filter(move |posted| posted.line == line)
}

/// All spans in the order of their arrival, also those that came twice.
pub(crate) fn spans(receiver: &Receiver) -> Vec<Span> {
    let posted = receiver.posted();
    let requests = posted
        .iter()
        .filter(|posted| !posted.line.contains("/v1/metrics"));
    let requests =
        requests.map(|posted| ExportTraceServiceRequest::decode(&*posted.bytes).unwrap());
    let of_resource = requests.flat_map(|request| request.resource_spans);
    let of_scope = of_resource.flat_map(|of| of.scope_spans);
    of_scope.flat_map(|of| of.spans).collect()
}

pub(crate) fn attribute(span: &Span, key: &str) -> Option<String> {
    let found = span.attributes.iter().find(|found| found.key == key)?;
    let value = found.value.clone()?.value?;
    if let Value::StringValue(text) = value {
        return Some(text);
    }
    let Value::IntValue(number) = value else {
        return Some(format!("{value:?}"));
    };
    Some(number.to_string())
}

/// The spans below another, each with what is the same in every run.
fn tree(spans: &[Span], parent: &[u8], depth: usize) -> String {
    let mut text = String::new();
    let of_parent = spans.iter().filter(|span| span.parent_span_id == parent);
    for span in of_parent.filter(|span| !span.name.starts_with("execute_tool")) {
        let shown = SHOWN.iter().filter_map(|key| {
            let name = key.rsplit('.').next()?;
            Some(format!(" {name}={}", attribute(span, key)?))
        });
        let shown: String = shown.collect();
        text += &format!("{}{}{shown}\n", "  ".repeat(depth), span.name);
        text += &tree(spans, &span.span_id, depth + 1);
    }
    text
}

/// One trace, in which every span has its parent, and none came with two contents.
fn whole(spans: Vec<Span>) -> Vec<Span> {
    let mut known: BTreeMap<Vec<u8>, Span> = BTreeMap::new();
    let mut once = Vec::new();
    for span in spans {
        match known.get(&span.span_id) {
            Some(before) => assert_eq!(*before, span, "the same span with another content"),
            None => once.push(span.clone()),
        }
        known.insert(span.span_id.clone(), span);
    }
    let traces: BTreeSet<_> = once.iter().map(|span| span.trace_id.clone()).collect();
    assert_eq!(traces.len(), 1);
    for span in &once {
        let is_root = span.parent_span_id.is_empty();
        assert!(
            is_root || known.contains_key(&span.parent_span_id),
            "{}",
            span.name
        );
        assert!(span.start_time_unix_nano <= span.end_time_unix_nano);
    }
    once
}

// shows: UIX-08
#[test]
fn a_run_is_a_trace_and_sums() {
    let collector = collector();
    let environment = Environment::new()
        .with(ENDPOINT, &collector.url(""))
        .with("OTEL_EXPORTER_OTLP_HEADERS", "x-key=secret%20word")
        .with("OTEL_RESOURCE_ATTRIBUTES", "team=night%20shift%2C%202");
    environment.write("task.md", &items(5));
    let verify = [&RUN[..], &["--verify", "test -e item-5.txt"]].concat();
    let said = environment.run(&verify).expect(0);
    assert_eq!(said.stderr, "");
    let spans = whole(spans(&collector));
    insta::assert_snapshot!(tree(&spans, &[], 0), @"
    invoke_workflow relay outcome=complete
      stage state=done
        verification outcome=failed type=failed
        verification outcome=failed type=failed
        invoke_agent rehearsal number=1 left=handoff
          attempt number=1 end=completed
            checkpoint reason=context
        verification outcome=passed
        invoke_agent rehearsal number=2 left=completion
          attempt number=2 end=completed
    ");
    let posted = collector.posted();
    let first = to(&posted, "/v1/traces").next().unwrap();
    assert_eq!(first.header("x-key"), Some("secret word"));
    let request = ExportTraceServiceRequest::decode(&*first.bytes).unwrap();
    let schema = &request.resource_spans[0].scope_spans[0].schema_url;
    assert_eq!(
        schema,
        "https://opentelemetry.io/schemas/gen-ai-dev/1.42.0-dev"
    );
    let resource = format!("{:?}", request.resource_spans[0].resource);
    assert!(
        resource.contains("ekiden") && resource.contains("night shift, 2"),
        "{resource}"
    );
    let session = spans
        .iter()
        .find(|span| span.name == "invoke_agent rehearsal")
        .unwrap();
    for (key, value) in [
        ("gen_ai.operation.name", "invoke_agent"),
        ("gen_ai.agent.name", "rehearsal"),
        ("gen_ai.provider.name", "ekiden"),
    ] {
        assert_eq!(attribute(session, key).as_deref(), Some(value));
    }
    assert!(attribute(session, "gen_ai.conversation.id").is_some());
    for kind in [
        "input_tokens",
        "cache_read.input_tokens",
        "cache_creation.input_tokens",
        "output_tokens",
    ] {
        let told = attribute(session, &format!("gen_ai.usage.{kind}"));
        assert!(told.is_some(), "{kind}");
    }
    let calls = |span: &&Span| span.name.starts_with("execute_tool ");
    let tools: BTreeSet<_> = spans
        .iter()
        .filter(calls)
        .map(|span| span.name.as_str())
        .collect();
    assert_eq!(
        tools.into_iter().collect::<Vec<_>>(),
        ["execute_tool Bash", "execute_tool Write"]
    );
    let call = spans.iter().find(calls).unwrap();
    assert_eq!(
        attribute(call, "gen_ai.operation.name").as_deref(),
        Some("execute_tool")
    );
    let attempt = spans
        .iter()
        .find(|span| span.span_id == call.parent_span_id);
    assert_eq!(attempt.unwrap().name, "attempt");
    let last = to(&posted, "/v1/metrics").last().unwrap();
    let request = ExportMetricsServiceRequest::decode(&*last.bytes).unwrap();
    let metrics = &request.resource_metrics[0].scope_metrics[0].metrics;
    let mut names: Vec<&str> = metrics.iter().map(|metric| metric.name.as_str()).collect();
    names.sort_unstable();
    let all = [
        "ekiden.cost",
        "ekiden.handoff.context",
        "ekiden.sessions",
        "ekiden.usage.tokens",
    ];
    assert_eq!(names, all);
}

/// The sum of `ekiden.sessions` that the last process sent.
fn sessions_counted(receiver: &Receiver) -> i64 {
    let posted = receiver.posted();
    let last = to(&posted, "/v1/metrics").last().unwrap();
    let request = ExportMetricsServiceRequest::decode(&*last.bytes).unwrap();
    let metrics = &request.resource_metrics[0].scope_metrics[0].metrics;
    let sessions = metrics
        .iter()
        .find(|metric| metric.name == "ekiden.sessions");
    let Some(Data::Sum(sum)) = &sessions.unwrap().data else {
        panic!("no sum: {metrics:?}");
    };
    let points = sum.data_points.iter().map(|point| match point.value {
        Some(Number::AsInt(count)) => count,
        ref other => panic!("no count: {other:?}"),
    });
    points.sum()
}

// shows: UIX-08
#[test]
fn a_plan_has_its_stages_and_merges_in_the_trace() {
    let collector = collector();
    let environment = repository().with(ENDPOINT, &collector.url(""));
    let (a, b) = (
        stage("A", "", "echo a > a", "test -e a"),
        stage("B", "needs = [\"A\"]", "echo b > b", "test -e b"),
    );
    environment.write("plan.toml", &plan(&[a, b]));
    environment.commit_all();
    environment.run(&EXECUTE).expect(0);
    insta::assert_snapshot!(tree(&whole(spans(&collector)), &[], 0), @"
    invoke_workflow plan outcome=complete
      stage state=done
        verification outcome=failed type=failed
        verification outcome=passed
        merge outcome=done
        invoke_agent rehearsal number=1 left=completion
          attempt number=1 end=completed
      stage state=done
        verification outcome=failed type=failed
        verification outcome=passed
        merge outcome=done
        invoke_agent rehearsal number=1 left=completion
          attempt number=1 end=completed
      delivery
    ");
}

/// The first account is at its limit, another goes on in the same session, and a third agent reviews its claim.
// shows: UIX-08
#[test]
fn a_session_names_the_agent_that_worked_in_it() {
    const CONFIG: &str = "../home/.config/ekiden/config.toml";
    let collector = collector();
    let environment =
        with_accounts(repository(), "{ limit = 18000 }").with(ENDPOINT, &collector.url(""));
    let judge = format!(
        "[agents.judge]\nkind = \"rehearsal\"\n\
         command = [\"env\", \"-u\", \"EKIDEN_REHEARSAL_SCENARIO\", {:?}, \"__rehearsal\"]\n",
        env!("CARGO_BIN_EXE_ekiden")
    );
    environment.write(CONFIG, &(environment.read(CONFIG) + &judge));
    environment.write("task.md", &items(3));
    let fallback = ["--fallback", "second", "--review=judge"];
    environment.run(&[&RUN[..], &fallback].concat()).expect(0);
    let spans = whole(spans(&collector));
    insta::assert_snapshot!(tree(&spans, &[], 0), @"
    invoke_workflow relay outcome=complete
      stage state=done
        invoke_agent second number=1 left=completion
          attempt number=1 end=rate_limited type=rate_limited
          attempt number=1 end=completed
            checkpoint reason=context
        invoke_agent judge number=2 left=passed
          attempt number=2 end=completed
    ");
    let metrics = collector.posted();
    let metrics = to(&metrics, "/v1/metrics").last().unwrap();
    for agent in ["rehearsal", "second", "judge"] {
        assert!(metrics.body.contains(agent), "{agent}");
    }
}

// shows: UIX-08
#[test]
fn a_run_that_was_killed_and_resumed_continues_its_trace() {
    let collector = collector();
    let environment = Environment::new().with(ENDPOINT, &collector.url(""));
    environment.write("task.md", &slow_items(2));
    let run = environment.start(&RUN);
    wait_until("the first item", || environment.exists("started"));
    run.signal(Signal::KILL);
    run.end();
    environment.run(&["resume"]).expect(0);
    assert_eq!(sessions_counted(&collector), 1);
    environment.write("more.md", &items(3));
    environment.run(&["continue", "-f", "more.md"]).expect(0);
    let spans = whole(spans(&collector));
    insta::assert_snapshot!(tree(&spans, &[], 0), @"
    invoke_workflow relay outcome=killed type=killed
      stage state=killed type=killed
        invoke_agent rehearsal number=1 left=nothing type=engine_lost
          attempt number=1 end=engine_lost type=engine_lost
      invoke_workflow relay outcome=complete
        stage state=done
          invoke_agent rehearsal number=1 left=completion
            attempt number=1 end=completed
              checkpoint reason=context
      invoke_workflow relay outcome=complete
        stage state=done
          invoke_agent rehearsal number=2 left=completion
            attempt number=2 end=completed
              checkpoint reason=context
    ");
}

/// The wait goes on after the kill: it is told once for each part.
// shows: UIX-08
#[test]
fn a_wait_that_a_kill_cut_in_two_is_two_spans() {
    let collector = collector();
    let environment = Environment::new().with(ENDPOINT, &collector.url(""));
    environment.write("task.md", &items(5));
    let mut run = environment.start(&[&RUN[..], &["--pause", "3"]].concat());
    run.wait_for("session 2 begins in");
    run.signal(Signal::KILL);
    run.end();
    environment.run(&["resume"]).expect(0);
    insta::assert_snapshot!(tree(&whole(spans(&collector)), &[], 0), @"
    invoke_workflow relay outcome=killed type=killed
      stage state=killed type=killed
        wait number=2 cause=pause
        invoke_agent rehearsal number=1 left=handoff
          attempt number=1 end=completed
            checkpoint reason=context
      invoke_workflow relay outcome=complete
        stage state=done
          wait number=2 cause=pause
          invoke_agent rehearsal number=2 left=completion
            attempt number=2 end=completed
    ");
}

// shows: UIX-08, MEM-12
#[test]
fn no_words_of_an_agent_and_no_secret_are_sent() {
    let collector = collector();
    let secret = format!("ghp_{}", "a1B2c3D4e5F6".repeat(3));
    let environment = Environment::new()
        .with(ENDPOINT, &collector.url(""))
        .with("EKIDEN_REHEARSAL_SCENARIO", "scenario.toml");
    environment.write("task.md", &items(3));
    environment.write(
        "scenario.toml",
        &format!("[[act]]\nsession = 1\nat = \"prompt\"\ndo = {{ question = \"May I push with {secret}?\" }}\n"),
    );
    environment
        .run(&[&RUN[..], &["--model", &secret]].concat())
        .expect(4);
    let posted = collector.posted();
    assert!(!spans(&collector).is_empty());
    for posted in &posted {
        for part in [secret.as_str(), "May I push", "Make the items"] {
            assert!(!posted.body.contains(part), "{part}");
        }
    }
}

/// Its subagents have a model of their own.
// shows: UIX-08, REL-27
#[test]
fn what_each_model_took_is_sent_under_its_name() {
    let collector = collector();
    let environment = Environment::new().with(ENDPOINT, &collector.url(""));
    environment.write("task.md", &items(1));
    let program = env!("CARGO_BIN_EXE_ekiden");
    let told = r#""helper":{"inputTokens":1000,"costUSD":0.5},"#;
    let edit = format!(r#"s/"modelUsage":{{/&{told}/"#);
    let script = format!("'{program}' __rehearsal \"$@\" | sed -u '{edit}'");
    environment.script("agent.sh", &script);
    let row = "[agents.two]\nkind = \"rehearsal\"\ncommand = [\"./agent.sh\"]\n";
    environment.write("../home/.config/ekiden/config.toml", row);
    let run = ["run", "task.md", "--agent", "two"];
    environment.run(&run).expect(0);
    let posted = collector.posted();
    let metrics = to(&posted, "/v1/metrics").last().unwrap();
    assert!(metrics.body.contains("helper"), "{}", metrics.body);
}

// shows: UIX-08
#[test]
fn what_fails_for_the_moment_is_sent_again() {
    let busy = [
        "503 Service Unavailable",
        "429 Too Many Requests\r\nretry-after: 0",
        "200 OK",
    ];
    let collector = Receiver::answering(Box::leak(Box::new(busy)));
    let environment = Environment::new()
        .with("OTEL_METRICS_EXPORTER", "none")
        .with(ENDPOINT, &collector.url(""));
    environment.write("task.md", &items(2));
    let said = environment.run(&RUN).expect(0);
    assert_eq!(said.stderr, "");
    assert!(
        whole(spans(&collector))
            .iter()
            .any(|span| span.name == "invoke_workflow relay")
    );
}

/// A port that takes connections and never answers, one where nobody is, one that refuses, and one that is busy.
// shows: UIX-08
#[test]
fn no_endpoint_delays_a_run_and_what_is_unsent_is_told_once() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let closed = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let refuses = Receiver::answering(&["400 Bad Request"]);
    let told = |url: &str| {
        let environment = Environment::new().with("EKIDEN_OTEL_ENDPOINT", url);
        environment.write("task.md", &items(2));
        environment.run(&RUN).expect(0).stderr
    };
    let silent = told(&format!("http://{}", silent.local_addr().unwrap()));
    assert_eq!(
        silent,
        "warning: telemetry: not everything is sent: nobody answers\n"
    );
    insta::assert_snapshot!(told(&refuses.url("")), @"warning: telemetry: 8 spans not sent: HTTP export failed with status code: 400");
    let ids: Vec<_> = spans(&refuses)
        .into_iter()
        .map(|span| span.span_id)
        .collect();
    let once: BTreeSet<_> = ids.iter().collect();
    assert_eq!(
        ids.len(),
        once.len(),
        "what is refused for good is not sent again"
    );
    let drops = "200 OK\r\ncontent-length: 4\r\n\r\n\n\u{2}\u{8}\u{1}";
    let drops = Receiver::answering(Box::leak(Box::new([drops, "200 OK"])));
    insta::assert_snapshot!(told(&drops.url("")), @"warning: telemetry: 1 span not sent: the endpoint rejects them");
    assert!(told(&format!("http://{closed}")).starts_with("warning: telemetry"));
    let busy = Receiver::answering(&["503 Service Unavailable\r\nretry-after: 5"]);
    assert_eq!(
        told(&busy.url("")),
        "warning: telemetry: not everything is sent: the endpoint answers with status 503\n"
    );
}

// shows: UIX-08
#[test]
fn nothing_is_sent_where_nobody_asked_for_it() {
    let collector = collector();
    let off = [
        ("OTEL_SDK_DISABLED", "true"),
        ("EKIDEN_OTEL_ENDPOINT", "none"),
    ];
    for (name, value) in off {
        let environment = Environment::new()
            .with(ENDPOINT, &collector.url(""))
            .with(name, value);
        environment.write("task.md", &items(1));
        environment.run(&RUN).expect(0);
    }
    assert!(collector.posted().is_empty());
    let environment = Environment::new()
        .with(ENDPOINT, &collector.url(""))
        .with("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc");
    environment.write("task.md", &items(1));
    insta::assert_snapshot!(environment.run(&RUN).expect(0).stderr, @"warning: no telemetry is sent: `OTEL_EXPORTER_OTLP_PROTOCOL` names an encoding that ekiden does not speak; it sends http/protobuf, uncompressed");
}
