//! The guard as the client calls it: hooks and the status line, fed what a client would say.

use std::path::PathBuf;

use serde_json::{Value, json};

use crate::environment::Environment;

const SESSION: &str = "5afeba7c-2d1b-4052-8781-47e7f3b03bf3";
/// A model with a window of 200,000, of which 167,000 can be used.
const MODEL: &str = "claude-haiku-4-5-20251001";

/// A watched session in a repository.
struct Watched {
    environment: Environment,
}

impl Watched {
    fn new() -> Self {
        let environment = Environment::with_git();
        environment.git(&["switch", "--quiet", "--create", "feature/ANV-123-api"]);
        environment.write("src/api.rs", "one\n");
        environment.commit_all();
        environment.write("src/api.rs", "two\n");
        Self { environment }
    }

    fn transcript(&self) -> PathBuf {
        self.environment.path("transcript.jsonl")
    }

    /// The last response used this share of the usable window. It is later than any status line.
    fn uses(&self, percent: u64) -> &Self {
        let line = json!({"type": "assistant", "isSidechain": false, "timestamp": "2099-11-21T14:00:00.000Z",
            "message": {"id": format!("m{percent}"), "model": MODEL, "role": "assistant",
                "content": [{"type": "text", "text": "on it"}], "stop_reason": "tool_use",
                "usage": {"input_tokens": 167_000 * percent / 100 + 1, "output_tokens": 5}}});
        std::fs::write(self.transcript(), format!("{line}\n")).unwrap();
        self
    }

    fn input(&self, event: &str, more: &Value) -> String {
        let mut input = json!({"session_id": SESSION, "transcript_path": self.transcript(),
            "cwd": self.environment.dir(), "hook_event_name": event});
        for (key, value) in more.as_object().unwrap() {
            input[key] = value.clone();
        }
        input.to_string()
    }

    /// What a hook answers; nothing is an empty object.
    fn hook(&self, event: &str, more: &Value) -> Value {
        let said = self.environment.fed(&["hook", event], &self.input(event, more)).expect(0);
        if said.stdout.is_empty() { json!({}) } else { serde_json::from_str(&said.stdout).unwrap() }
    }

    fn batch(&self, command: &str) -> Value {
        let call = json!({"tool_name": "Bash", "tool_input": {"command": command}, "tool_response": "ok"});
        self.hook("PostToolBatch", &json!({"tool_calls": [call]}))
    }

    fn tool(&self, name: &str, input: &Value) -> Value {
        self.hook("PreToolUse", &json!({"tool_name": name, "tool_input": input, "tool_use_id": "t"}))
    }

    fn line(&self, used: u64) -> String {
        let input = json!({"session_id": SESSION, "transcript_path": self.transcript(),
            "cwd": self.environment.dir(), "model": {"id": MODEL},
            "workspace": {"project_dir": self.environment.dir()},
            "context_window": {"context_window_size": 200_000, "total_input_tokens": used}});
        self.environment.fed(&["statusline"], &input.to_string()).expect(0).stdout
    }

    /// Waits for the detached checkpoint: its lock is free once it is written.
    fn checkpointed(&self) {
        let lock = self.guard(&format!("{SESSION}.writing"));
        let log = self.guard(&format!("{SESSION}.jsonl"));
        for _ in 0..3_000 {
            if std::fs::read_to_string(&log).unwrap_or_default().contains("\"taken\"") {
                let file = std::fs::File::open(&lock).unwrap();
                file.lock_shared().unwrap();
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        panic!("no checkpoint: {}", std::fs::read_to_string(&log).unwrap_or_default());
    }

    fn guard(&self, name: &str) -> PathBuf {
        self.environment.dir().join(".git/ekiden/root/guard").join(name)
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.guard(&format!("{SESSION}.jsonl"))).unwrap_or_default()
    }

    fn state(&self) -> Value {
        serde_json::from_str(&self.environment.read(".ekiden/checkpoint-state.json")).unwrap()
    }
}

fn person(answer: &Value) -> &str {
    answer["systemMessage"].as_str().unwrap_or_default()
}

fn agent(answer: &Value) -> &str {
    answer["hookSpecificOutput"]["additionalContext"].as_str().unwrap_or_default()
}

// shows: MON-001, MON-004, CHK-001, CHK-002
#[test]
fn l1_is_told_once_and_nothing_is_done() {
    let session = Watched::new();
    assert_eq!(session.uses(68).batch("ls"), json!({}));
    let answer = session.uses(71).batch("ls");
    assert!(person(&answer).starts_with("⚠️ Context at 71% - Consider completing"), "{answer}");
    assert!(agent(&answer).contains("finish the item at hand"), "{answer}");
    assert_eq!(session.uses(72).batch("ls"), json!({}));
    assert!(!session.environment.exists(".ekiden/handoffs"));
    assert_eq!(session.line(120_000), "[CTX: ███████░░░ 72% ⚠️ L1] [ISSUE: ANV-123] [CKPT: Ready]\n");
}

// shows: CHK-003, CHK-004, CHK-13, HND-001, HND-07
#[test]
fn l2_takes_a_checkpoint_from_which_the_next_session_goes_on() {
    let session = Watched::new();
    session.hook("SessionStart", &json!({"source": "startup"}));
    let answer = session.uses(86).batch("git commit -m done");
    assert!(person(&answer).contains("🔶 Context at 86% - Initiating checkpoint sequence."), "{answer}");
    session.checkpointed();
    let told = session.batch("ls");
    assert!(agent(&told).contains(".ekiden/handoffs/"), "{told}");
    assert!(session.line(143_621).contains("[CKPT: Done]"));
    let state = session.state();
    assert_eq!(state["currentLevel"], "L2");
    assert_eq!(state["lastCheckpoint"]["reason"], "L2");
    assert_eq!(state["modifiedFiles"], json!(["src/api.rs"]));
    let message =
        session.environment.git(&["log", "-1", "--format=%s", &format!("refs/ekiden/wip/{SESSION}")]);
    assert_eq!(message, "[WIP] ANV-123 - checkpoint\n");
    let other = json!({"source": "clear", "session_id": "another"});
    let loaded = session.hook("SessionStart", &other);
    assert!(agent(&loaded).contains("It reads:"), "{loaded}");
    assert!(agent(&loaded).encode_utf16().count() <= 9_000);
    assert_eq!(session.hook("SessionStart", &other), json!({}), "it is given once");
}

// shows: CHK-005
#[test]
fn at_l3_calls_are_refused_but_for_the_handoff_and_three_end_the_turn() {
    let session = Watched::new();
    let answer = session.uses(96).batch("ls");
    assert!(person(&answer).contains("🔴 Context at 96% - Emergency checkpoint!"), "{answer}");
    session.checkpointed();
    let shell = || session.tool("Bash", &json!({"command": "make"}));
    let refused = shell();
    assert_eq!(refused["hookSpecificOutput"]["permissionDecision"], "deny");
    assert_eq!(refused["continue"], Value::Null);
    let document = session.environment.dir().join(".ekiden/handoffs/2026-11-21-1400.md");
    let written = session.tool("Edit", &json!({"file_path": document}));
    assert_eq!(written["hookSpecificOutput"]["permissionDecision"], "allow");
    assert_eq!(session.tool("Skill", &json!({"skill": "handoff"})), json!({}));
    shell();
    assert_eq!(shell()["continue"], false, "the third ends the turn");
    session.hook("UserPromptSubmit", &json!({"prompt": "go on"}));
    assert_eq!(shell(), json!({}), "the person goes on knowingly");
}

// shows: CHK-10
#[test]
fn a_compaction_waits_for_its_checkpoint_and_takes_one_only() {
    let session = Watched::new();
    session.uses(60);
    let compact = || session.hook("PreCompact", &json!({"trigger": "auto"}));
    assert_eq!(compact(), json!({}), "nothing is said: it would go into the summary");
    compact();
    let documents = std::fs::read_dir(session.environment.dir().join(".ekiden/handoffs")).unwrap().count();
    assert_eq!(documents, 1);
    assert!(session.log().contains("\"reason\":\"compaction\""));
    let loaded = session.hook("SessionStart", &json!({"source": "compact"}));
    assert!(agent(&loaded).contains("It reads:"), "its own: {loaded}");
}

// shows: CHK-07, CHK-12
#[test]
fn a_person_asks_and_puts_off() {
    let session = Watched::new();
    session.uses(71).batch("ls");
    let told = session.environment.run(&["checkpoint", "--defer"]).expect(0).stdout;
    assert_eq!(told, "The handover is put off until 90% of the usable window.\n");
    assert!(session.line(118_571).contains("[CKPT: Deferred]"));
    let answer = session.uses(86).batch("ls");
    assert!(person(&answer).contains("The checkpoint waits until 90%"), "{answer}");
    let taken = session.environment.run(&["checkpoint", "--json"]).expect(0).stdout;
    let taken: Value = serde_json::from_str(&taken).unwrap();
    assert!(taken["document"].as_str().unwrap().ends_with(".md"));
    assert_eq!(taken["modified_files"], json!(["src/api.rs"]));
}

// shows: EST-002
#[test]
fn a_prompt_that_may_not_fit_is_warned_of_and_not_stopped() {
    let session = Watched::new();
    session.environment.write("docs/spec.md", &"- [ ] port a module\n".repeat(20));
    session.uses(55);
    let answer = session.hook("UserPromptSubmit", &json!({"prompt": "Implement docs/spec.md, all of it."}));
    assert_eq!(person(&answer), "");
    session.environment.write("docs/large.md", &"words of a large specification\n".repeat(3_000));
    let prompt = json!({"prompt": "Implement docs/large.md, all of it."});
    let answer = session.hook("UserPromptSubmit", &prompt);
    assert!(person(&answer).contains("or proceed anyway"), "{answer}");
    assert!(agent(&answer).contains("Three ways are open"), "{answer}");
    assert_eq!(answer["decision"], Value::Null);
}

// shows: MON-08
#[test]
fn in_a_session_of_ekiden_it_stands_aside() {
    let mut session = Watched::new();
    session.environment = session.environment.with("EKIDEN_RUN", "7f3a0000");
    assert_eq!(session.uses(96).batch("ls"), json!({}));
    assert_eq!(session.line(160_000), "");
    assert_eq!(session.log(), "");
}

// shows: MON-001
#[test]
fn subagents_and_the_clients_own_prompts_are_not_the_session() {
    let session = Watched::new();
    session.uses(86);
    assert_eq!(session.hook("PostToolBatch", &json!({"agent_id": "a1", "tool_calls": []})), json!({}));
    let own = json!({"prompt": "<task-notification>done</task-notification>"});
    assert_eq!(session.hook("UserPromptSubmit", &own), json!({}));
    assert_eq!(session.log(), "");
}

// shows: SEC-05
#[test]
fn rubbish_fails_open_and_never_with_2() {
    let environment = Environment::with_git();
    let half = "{\"hook_event_name\":\"PostToolBatch\",\"session_id\":\"../../x\",\"tool_calls\":[{";
    for input in ["", "null", "[1,2]", half, "\u{0}\u{1b}[2J", &"x".repeat(2_000_000)] {
        for args in [&["hook", "PostToolBatch"][..], &["hook", "nonsense", "--wat"], &["statusline", "--wat"]]
        {
            let said = environment.fed(args, input).expect(0);
            assert!(!said.stdout.contains("hookSpecificOutput"), "{args:?}: {}", said.stdout);
        }
    }
    let session = Watched::new();
    std::fs::write(session.transcript(), "{\"type\":\"assistant\",\"mess").unwrap();
    assert_eq!(session.batch("ls"), json!({}));
    std::fs::remove_file(session.transcript()).unwrap();
    assert_eq!(session.batch("ls"), json!({}));
}

// shows: MON-005, MON-004
#[test]
fn of_many_calls_at_once_one_tells() {
    let session = Watched::new();
    session.uses(71);
    let answers: Vec<Value> = std::thread::scope(|scope| {
        let calls: Vec<_> = (0..16).map(|_| scope.spawn(|| session.batch("ls"))).collect();
        calls.into_iter().map(|call| call.join().unwrap()).collect()
    });
    assert_eq!(answers.iter().filter(|answer| !person(answer).is_empty()).count(), 1);
    assert_eq!(session.log().matches("\"crossed\"").count(), 1);
}

// shows: UIX-06
#[test]
fn another_programs_line_stands_below() {
    let environment = Environment::new();
    let input = json!({"cwd": environment.dir(), "session_id": "s"}).to_string();
    let said = environment.fed(&["statusline", "--wrap", "tr a-z A-Z | head -c 5"], &input);
    assert_eq!(said.expect(0).stdout, "[CTX: --] [CKPT: Ready]\n{\"CWD\n");
}

// shows: CHK-13
#[test]
fn status_says_where_the_session_is() {
    let session = Watched::new();
    session.uses(71).batch("ls");
    let said = session.environment.run(&["checkpoint", "--status", "--session", SESSION]).expect(0).stdout;
    assert_eq!(
        said, "Context     unknown: the session has no response yet\n",
        "no transcript of it is known"
    );
}
