//! Notifications beside the desktop: a program, a webhook, a topic of ntfy.

use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::environment::{Environment, items};
use crate::judging::HAND_OVER;
use crate::receiver::Receiver;

const RUN: [&str; 4] = ["run", "task.md", "--agent", "rehearsal"];

/// A project whose user has these settings of `[notify]`.
fn project(settings: &str) -> Environment {
    let environment = Environment::new();
    environment.write("task.md", &items(5));
    environment.write(
        "../home/.config/ekiden/config.toml",
        &format!("[notify]\n{settings}\n"),
    );
    environment
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// An event without what differs from run to run.
fn normal(text: &str) -> String {
    let mut event = json(text);
    for name in ["id", "time", "run", "title"] {
        let value = event[name].as_str().unwrap();
        assert!(!value.is_empty());
        event[name] = format!("<{name}>").into();
    }
    event.to_string()
}

// shows: UIX-10
#[test]
fn every_way_gets_the_same_event() {
    let (hook, topic) = (
        Receiver::answering(&["200 OK"]),
        Receiver::answering(&["200 OK"]),
    );
    let environment = project(&format!(
        "command = ['sh', '-c', 'cat >> told; echo noise; echo noise >&2']\nwebhook = '{}'\nntfy = '{}'",
        hook.url("/hook?key=x"),
        topic.url("/topic")
    ));
    let said = environment
        .run(&[&RUN[..], &["-m", "1"]].concat())
        .expect(3);
    assert_eq!(said.stderr, "");
    let told = environment.read("told");
    let posted = &hook.posted()[0];
    assert_eq!(posted.body, told.trim_end());
    insta::assert_snapshot!(normal(&told), @r#"{"event":"notice","id":"<id>","kind":"limit","project":"project","run":"<run>","session":1,"stage":null,"text":"stopped: all its sessions are used","time":"<time>","title":"<title>","v":1}"#);
    assert_eq!(posted.line, "POST /hook?key=x HTTP/1.1");
    assert_eq!(posted.header("content-type"), Some("application/json"));
    let (text, event) = (&topic.posted()[0], json(&told));
    assert_eq!(text.body, "stopped: all its sessions are used");
    assert_eq!(text.header("title"), event["title"].as_str());
    assert!(!said.to_string().contains("noise"), "{said}");
}

// shows: UIX-10
#[test]
fn each_way_gets_what_it_is_for() {
    let (hook, topic) = (
        Receiver::answering(&["200 OK"]),
        Receiver::answering(&["200 OK"]),
    );
    let environment = project(&format!(
        "kinds = ['failed']\ncommand = 'sh -c \"cat >> told\"'\ncommand_kinds = ['limit', 'done']\n\
         webhook = '{}'\nwebhook_kinds = 'done'\nntfy = '{}'",
        hook.url("/"),
        topic.url("/")
    ));
    environment
        .run(&[&RUN[..], &["-m", "1"]].concat())
        .expect(3);
    environment.run(&["resume"]).expect(0);
    let kinds = |text: &str| -> Vec<String> {
        text.lines()
            .map(|line| json(line)["kind"].as_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!(kinds(&environment.read("told")), ["limit", "done"]);
    assert_eq!(hook.posted().len(), 1);
    assert_eq!(kinds(&hook.posted()[0].body), ["done"]);
    assert!(topic.posted().is_empty());
    let none = [&RUN[..], &["--no-notify"]].concat();
    environment.run(&none).expect(0);
    assert_eq!(hook.posted().len(), 1);
}

// shows: UIX-10, MEM-12
#[test]
fn what_an_agent_asks_is_sent_only_if_wanted_and_masked() {
    let secret = format!("ghp_{}", "a1B2c3D4e5F6".repeat(3));
    let asks = |settings: &str| {
        let hook = Receiver::answering(&["204 No Content"]);
        let environment = project(&format!("webhook = '{}'\n{settings}", hook.url("/")))
            .with("EKIDEN_REHEARSAL_SCENARIO", "scenario.toml");
        environment.write(
            "scenario.toml",
            &format!("[[act]]\nsession = 1\nat = \"prompt\"\ndo = {{ question = \"May I push with {secret}?\" }}\n"),
        );
        environment.run(&RUN).expect(4);
        json(&hook.posted()[0].body)
    };
    let quiet = asks("");
    assert_eq!(
        (&quiet["kind"], &quiet["text"]),
        (&"needs_you".into(), &"blocked: it needs your input".into())
    );
    let asked = asks("text = true");
    assert_eq!(
        asked["text"],
        "blocked: May I push with [masked: github token]?"
    );
}

// shows: UIX-10
#[test]
fn what_fails_for_the_moment_is_sent_again() {
    let hook = Receiver::answering(&["503 Service Unavailable", "200 OK"]);
    let environment = project(&format!("webhook = '{}'", hook.url("/")));
    let said = environment.run(&RUN).expect(0);
    assert_eq!(said.stderr, "");
    let posted = hook.posted();
    assert_eq!(posted.len(), 2);
    assert_eq!(posted[0].body, posted[1].body);
}

/// As with a home on a full disk, when a notice counts most.
// shows: UIX-10
#[test]
fn what_cannot_be_kept_is_sent_all_the_same() {
    let hook = Receiver::answering(&["200 OK"]);
    let environment = project(&format!("webhook = '{}'", hook.url("/")));
    environment.write("../home/.local/state/ekiden/notices", "no directory");
    let said = environment.run(&RUN).expect(0);
    assert_eq!((hook.posted().len(), &*said.stderr), (1, ""));
}

/// The run is over before the last try.
// shows: UIX-10
#[test]
fn what_did_not_arrive_goes_with_the_next_one() {
    let is_up = Arc::new(AtomicBool::new(false));
    let up = Arc::clone(&is_up);
    let hook = Receiver::by(Box::new(move |_, _| match up.load(Ordering::SeqCst) {
        true => "204 No Content",
        false => "503 Service Unavailable",
    }));
    let environment = project(&format!("webhook = '{}'", hook.url("/")));
    environment
        .run(&[&RUN[..], &["-m", "1"]].concat())
        .expect(3);
    is_up.store(true, Ordering::SeqCst);
    environment.run(&["resume"]).expect(0);
    let posted = hook.posted();
    let (last, tries) = posted.split_last().unwrap();
    assert!(tries.len() >= 3);
    assert!(tries.iter().all(|posted| posted.body == tries[0].body));
    assert_eq!(json(&tries[0].body)["kind"], "limit");
    assert_eq!(json(&last.body)["kind"], "done");
    // What has arrived is not sent again.
    environment.run(&RUN).expect(0);
    assert_eq!(hook.posted().len(), posted.len() + 1);
}

// shows: UIX-10
#[test]
fn one_that_never_arrives_does_not_block_the_others() {
    let hook = Receiver::by(Box::new(|before, now| {
        match before.first().is_none_or(|first| first.body == now.body) {
            true => "500 Internal Server Error",
            false => "200 OK",
        }
    }));
    let environment = project(&format!("webhook = '{}'", hook.url("/")));
    environment
        .run(&[&RUN[..], &["-m", "1"]].concat())
        .expect(3);
    let before = hook.posted().len();
    environment.run(&["resume"]).expect(0);
    environment.run(&RUN).expect(0);
    let kinds = hook.posted().into_iter().skip(before);
    let mut kinds: Vec<String> = kinds
        .map(|posted| json(&posted.body)["kind"].as_str().unwrap().to_owned())
        .collect();
    kinds.dedup();
    assert_eq!(kinds, ["limit", "done", "limit", "done"]);
}

// shows: UIX-10
#[test]
fn what_is_refused_is_told_once_and_not_sent_again() {
    let (elsewhere, gone) = (
        Receiver::answering(&["302 Found\r\nlocation: http://127.0.0.1:9/"]),
        Receiver::answering(&["404 Not Found"]),
    );
    let environment = project(&format!(
        "command = ['sh', '-c', 'echo no; echo why >&2; exit 3']\nwebhook = '{}'\nntfy = '{}'",
        elsewhere.url("/secret-path"),
        gone.url("/")
    ));
    let said = environment.run(&RUN).expect(0);
    let mut warnings: Vec<&str> = said.stderr.lines().collect();
    warnings.sort_unstable();
    insta::assert_snapshot!(warnings.join("\n"), @r"
    warning: cannot notify by `notify.command`: `sh` failed: why; `--no-notify` switches that off
    warning: cannot notify by `notify.ntfy`: it answers 404 Not Found; `--no-notify` switches that off
    warning: cannot notify by `notify.webhook`: it answers 302 Found, a redirect: name the address that it leads to; `--no-notify` switches that off
    ");
    assert_eq!((elsewhere.posted().len(), gone.posted().len()), (1, 1));
}

/// A port that takes connections and never answers, and a program that never ends.
// shows: UIX-10
#[test]
fn a_dead_endpoint_delays_no_session_and_the_end_by_seconds() {
    let dead = TcpListener::bind("127.0.0.1:0").unwrap();
    let environment = project(&format!(
        "command = ['sleep', '1000']\nwebhook = 'http://{}'",
        dead.local_addr().unwrap()
    ));
    let started = Instant::now();
    let said = environment.run(&RUN).expect(0);
    let took = started.elapsed();
    assert!(took < Duration::from_secs(20), "{took:?}");
    assert!(took > Duration::from_secs(4), "{took:?}");
    assert_eq!(
        said.stderr,
        "warning: the run is over and a notification is still on its way: it may not arrive\n"
    );
}

// shows: UIX-10, SEC-11
#[test]
fn a_project_does_not_say_where_notifications_go() {
    let environment = Environment::new();
    environment.write("task.md", &items(2));
    environment.write(
        ".ekiden/config.toml",
        "notify.kinds = ['done']\nnotify.webhook = 'http://127.0.0.1:9/'\n",
    );
    insta::assert_snapshot!(environment.told(&RUN), @r"
    --- standard error
    error: .ekiden/config.toml:1: a project's own file may not set `notify.kinds`
    hint: it would decide which commands run, or who is notified, on the machine of everybody who clones the project
    hint: take the line out, then put it into ~/.config/ekiden/config.toml
    hint: or read the file, and approve it as it is now: `ekiden config approve`
    --- exit code 78
    ");
    environment.run(&["config", "approve"]).expect(0);
    environment
        .run(&[&RUN[..], &["--no-notify"]].concat())
        .expect(0);
}

// shows: UIX-10
#[test]
fn an_agent_that_repeats_itself_is_told_at_once() {
    let hook = Receiver::answering(&["200 OK"]);
    let environment = project(&format!("webhook = '{}'", hook.url("/")));
    let agent = format!("status=IN_PROGRESS\nnote='the second is not'\n{HAND_OVER}");
    environment.script("agent.sh", &agent);
    environment
        .run(&["run", "Write two files.", "--agent-command", "./agent.sh"])
        .expect(3);
    let texts: Vec<String> = hook
        .posted()
        .iter()
        .map(|posted| {
            let event = json(&posted.body);
            format!(
                "{}: {}",
                event["kind"].as_str().unwrap(),
                event["text"].as_str().unwrap()
            )
        })
        .collect();
    insta::assert_snapshot!(texts.join("\n"), @r"
    loop: session 2 repeated the handoff of session 1 and nothing changed
    loop: stopped: its handoffs repeated and nothing changed
    ");
}

// shows: UIX-10, AGT-10
#[test]
fn the_doctor_tries_each_way() {
    let hook = Receiver::answering(&["200 OK"]);
    let environment = project(&format!(
        "command = ['no-such-program']\nwebhook = '{}'\nkinds = 'none'",
        hook.url("/")
    ));
    let lines = |args: &[&str]| {
        let said = environment
            .run(&[&["doctor", "--agent", "rehearsal"], args].concat())
            .expect(0);
        let lines = said
            .stdout
            .lines()
            .skip_while(|line| !line.contains("  notify  "));
        lines.collect::<Vec<_>>().join("\n")
    };
    insta::assert_snapshot!(lines(&[]), @r"
    warning  notify      `notify.command`: there is no program `no-such-program`
                         name another: `ekiden config set notify.command 'PROGRAM ARGUMENTS'`
    ");
    assert!(hook.posted().is_empty());
    insta::assert_snapshot!(lines(&["--try-notify"]), @r"
    warning  notify      notify.desktop: no desktop session was found
                         switch it off: `ekiden config set notify.desktop false`
    warning  notify      notify.command: cannot find the program `no-such-program`
                         see docs/notifications.md, or leave this way out of your settings
    ok       notify      notify.webhook: sent
    ");
    assert_eq!(json(&hook.wait_for(1)[0].body)["kind"], "needs_you");
}

/// No record can hold this notice, since the log is what cannot be written.
// shows: UIX-10, DUR-04
#[test]
fn a_run_that_ekiden_itself_cannot_go_on_with_notifies() {
    let environment = project("command = ['sh', '-c', 'cat >> told']");
    environment.write(
        "task.md",
        "- [ ] Item\n\n  ```sh\n  rm .ekiden/runs/*/log.jsonl\n  ```\n",
    );
    environment.run(&RUN).expect(74);
    let told = json(&environment.read("told"));
    assert_eq!(told["kind"], "failed");
    let text = told["text"].as_str().unwrap();
    assert!(
        text.starts_with("ekiden stopped: it cannot append to "),
        "{text}"
    );
}
