//! `ekiden mcp` on its own: bad input, a client that goes away, and the official Python client.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};

use serde_json::{Value, json};

use crate::environment::Environment;
use crate::guard::{SESSION, Watched};

/// Where `python3 -m venv mcp-client/venv` puts it, from the root of the workspace.
const PYTHON: &str = "mcp-client/venv/bin/python";

struct Server {
    child: Child,
    input: ChildStdin,
    output: BufReader<std::process::ChildStdout>,
}

impl Server {
    fn start(environment: &Environment) -> Self {
        Self::of(&mut environment.command(&["mcp"]))
    }

    fn of(command: &mut Command) -> Self {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let (input, output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        Self {
            child,
            input,
            output: BufReader::new(output),
        }
    }

    fn send(&mut self, line: &str) {
        self.input.write_all(line.as_bytes()).unwrap();
        self.input.write_all(b"\n").unwrap();
    }

    fn ask(&mut self, method: &str, params: &Value) -> Value {
        let request = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        self.send(&request.to_string());
        loop {
            let mut line = String::new();
            assert!(self.output.read_line(&mut line).unwrap() > 0, "it ended");
            let answer: Value = serde_json::from_str(&line).unwrap();
            // What was no request is told without one.
            if answer["id"] == 1 {
                return answer;
            }
        }
    }

    fn greet(&mut self) {
        let info = json!({"name": "test", "version": "1"});
        let told = self.ask(
            "initialize",
            &json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": info}),
        );
        assert_eq!(told["result"]["serverInfo"]["name"], "ekiden");
        self.send(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
    }
}

// shows: MEM-09
#[test]
fn the_version_is_the_clients_or_the_newest() {
    let environment = Environment::with_git();
    let mut server = Server::start(&environment);
    for (asked, answered) in [("2025-03-26", "2025-03-26"), ("2099-01-01", "2025-11-25")] {
        let told = server.ask("initialize", &json!({"protocolVersion": asked}));
        assert_eq!(told["result"]["protocolVersion"], answered);
    }
    assert_eq!(server.ask("ping", &json!({}))["result"], json!({}));
    let newer = server.ask("server/discover", &json!({}));
    assert_eq!(newer["error"]["code"], -32601, "{newer}");
}

// shows: MEM-09
#[test]
fn bad_requests_are_answered_and_the_server_goes_on() {
    let environment = Environment::with_git();
    let mut server = Server::start(&environment);
    server.greet();
    let call = |tool: &str, arguments: Value| json!({"name": tool, "arguments": arguments});
    server.send("not json");
    server.send(r#"{"jsonrpc":"1.0"}"#);
    let unknown = server.ask("tools/call", &call("no_such_tool", json!({})));
    assert_eq!(
        unknown["error"]["message"],
        "there is no tool `no_such_tool`"
    );
    let none = server.ask("no/such/method", &json!({}));
    assert!(none["error"]["code"].is_i64(), "{none}");
    let huge = server.ask(
        "tools/call",
        &call("search", json!({"query": "x".repeat(2_000_000)})),
    );
    assert_eq!(huge["result"]["content"][0]["text"], "nothing found");
    let many: Vec<String> = (0..100_000).map(|id| format!("{id:016x}")).collect();
    let many = server.ask(
        "tools/call",
        &call("get_batch_observations", json!({"ids": many})),
    );
    assert_eq!(many["result"]["isError"], true, "{many}");
    let wrong = server.ask("tools/call", &call("timeline", json!({"id": {"x": 1}})));
    assert_eq!(wrong["result"]["content"][0]["text"], "id is missing");
    let listed = server.ask("tools/list", &json!({}));
    assert_eq!(listed["result"]["tools"].as_array().unwrap().len(), 8);
}

/// In one of these zones it is another day than in UTC.
// shows: MEM-09
#[test]
fn a_date_is_a_day_as_the_lines_show_it() {
    let session = Watched::new();
    session.uses(20);
    session.environment.run(&["checkpoint"]).expect(0);
    for zone in ["X-14", "X+12"] {
        let mut command = session.environment.command(&["mcp"]);
        command.env("TZ", zone);
        let mut server = Server::of(&mut command);
        server.greet();
        let mut search = |arguments: Value| {
            let params = json!({"name": "search", "arguments": arguments});
            let told = server.ask("tools/call", &params)["result"]["content"][0]["text"].clone();
            told.as_str().unwrap().to_owned()
        };
        let all = search(json!({"query": "checkpoint"}));
        let line = all.lines().next().unwrap();
        let date = line
            .split_whitespace()
            .nth(2)
            .unwrap()
            .split('T')
            .next()
            .unwrap();
        let of_day = search(json!({"query": "checkpoint", "date": date}));
        assert!(of_day.contains(line), "{zone} {date}: {of_day}");
        // A time is that time, and no day.
        let hour_ago = jiff::Timestamp::now() - jiff::SignedDuration::from_hours(1);
        let before = search(json!({"query": "checkpoint", "dateEnd": hour_ago.to_string()}));
        assert!(!before.contains(line), "{zone}: {before}");
    }
}

/// Agents write ids as text and as numbers.
// shows: MEM-09
#[test]
fn an_id_that_names_nothing_does_not_hide_the_others() {
    let session = Watched::new();
    session.uses(20);
    session.environment.run(&["checkpoint"]).expect(0);
    let mut server = Server::start(&session.environment);
    server.greet();
    let mut call = |tool: &str, arguments: Value| {
        let params = json!({"name": tool, "arguments": arguments});
        server.ask("tools/call", &params)["result"].clone()
    };
    let found = call("search", json!({"query": "checkpoint"}));
    let line = found["content"][0]["text"].as_str().unwrap();
    let id = line.split_whitespace().nth(1).unwrap();
    let both = call("get_batch_observations", json!({"ids": [id, 12_345_678]}));
    let text = both["content"][0]["text"].as_str().unwrap();
    assert!(
        both["isError"] == false
            && text.contains(id)
            && text.contains("observation `12345678`: there is none"),
        "{text}"
    );
    let none = call("get_batch_observations", json!({"ids": 12_345_678}));
    assert_eq!(none["isError"], true, "{none}");
}

/// Its checkpoint asks git, which the server must survive.
// shows: MEM-09
#[test]
fn a_session_that_a_person_started_writes_its_handoff() {
    let environment = Environment::with_git();
    let mut server = Server::start(&environment);
    server.greet();
    let mut call = |tool: &str, arguments: Value| {
        let params = json!({"name": tool, "arguments": arguments});
        server.ask("tools/call", &params)["result"].clone()
    };
    let long = json!({"done": "- line\n".repeat(40_000)});
    let refused = call("write_handoff", long);
    let text = refused["content"][0]["text"].as_str().unwrap();
    assert!(text.starts_with("done is too long"), "{text}");
    let done = "- The lexer\n- **Bold** one\n--verify works";
    let lines = json!({"done": done, "decisions": "No macros"});
    let written = call("write_handoff", lines);
    let text = written["content"][0]["text"].as_str().unwrap();
    let document = text.strip_prefix("Written: ").expect(text);
    let document = environment.read(document);
    assert!(
        document.contains("- The lexer\n- **Bold** one\n- --verify works\n")
            && document.contains("- No macros"),
        "{document}"
    );
    let again = json!({"decisions": "Macros", "blockers": "none"});
    let again = call("write_handoff", again);
    assert_eq!(again["isError"], true, "{again}");
    let text = again["content"][0]["text"].as_str().unwrap();
    assert!(text.contains(" under Decisions already: "), "{text}");
    let none = call("get_batch_observations", json!({"ids": []}));
    assert_eq!(none["content"][0]["text"], "ids is missing");
}

/// Another document would not be that of the level, so no session of a loop would end with it.
// shows: MEM-09, CHK-12, RLP-003
#[test]
fn the_guards_document_is_filled_in_and_not_asked_for_again() {
    let session = Watched::new();
    session.uses(86).batch("git commit -m done");
    session.checkpointed();
    let mut server = Server::start(&session.environment);
    server.greet();
    session.environment.write("src/api.rs", "three\n");
    let lines = json!({"done": "The lexer", "decisions": "No macros", "blockers": "none"});
    let params = json!({"name": "write_handoff", "arguments": lines});
    let documents = session.environment.dir().join(".ekiden/handoffs");
    let path = documents
        .read_dir()
        .unwrap()
        .next()
        .unwrap()
        .unwrap()
        .path();
    let empty = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, empty.replace("\n_Empty: ", "\n- ")).unwrap();
    let refused = server.ask("tools/call", &params);
    assert_eq!(refused["result"]["isError"], true, "{refused}");
    assert!(!session.log().contains("\"filled\""), "it wrote nothing");
    std::fs::write(&path, empty).unwrap();
    let answer = server.ask("tools/call", &params);
    let text = answer["result"]["content"][0]["text"].as_str().unwrap();
    let document = text.strip_prefix("Written: ").expect(text);
    let text = session.environment.read(document);
    assert!(
        text.contains("checkpoint_trigger: L2") && text.contains("- No macros"),
        "{text}"
    );
    assert_eq!(session.batch("ls"), json!({}));
    assert_eq!(documents.read_dir().unwrap().count(), 1);
}

/// The client's tool `EnterWorktree` changes no directory of a server.
// shows: MEM-09, HND-07
#[test]
fn a_session_whose_agent_entered_a_worktree_writes_its_handoff_there() {
    let session = Watched::new();
    let side = session.environment.dir().join(".claude/worktrees/side");
    let added = ["worktree", "add", "--quiet", side.to_str().unwrap()];
    session.environment.git(&added);
    let project = session.environment.dir().display().to_string();
    let environment = session.environment.with("CLAUDE_PROJECT_DIR", &project);
    let environment = environment.with("CLAUDE_CODE_SESSION_ID", SESSION);
    let session = Watched { environment };
    let commit = json!({"tool_name": "Bash", "tool_input": {"command": "git commit -m x"}, "tool_response": "ok"});
    let within = json!({"cwd": side, "tool_calls": [commit]});
    session.uses(87).hook("PostToolBatch", &within);
    session.checkpointed();
    let told = std::fs::read_to_string(session.transcript()).unwrap();
    let told = told.replacen('{', &format!("{{\"cwd\":{},", json!(side)), 1);
    let projects = session.environment.path("home/.claude/projects/-p");
    std::fs::create_dir_all(&projects).unwrap();
    std::fs::write(projects.join(format!("{SESSION}.jsonl")), told).unwrap();
    let mut server = Server::start(&session.environment);
    server.greet();
    let params = json!({"name": "write_handoff", "arguments": {"done": "The lexer"}});
    let answer = server.ask("tools/call", &params);
    assert_eq!(answer["result"]["isError"], false, "{answer}");
    assert!(!session.environment.exists(".ekiden/handoffs"), "{answer}");
    let documents = std::fs::read_dir(side.join(".ekiden/handoffs")).unwrap();
    let documents: Vec<_> = documents.flatten().map(|entry| entry.path()).collect();
    assert_eq!(documents.len(), 1, "{documents:?}");
    let document = std::fs::read_to_string(&documents[0]).unwrap();
    assert!(document.contains("- The lexer"), "{document}");
}

// shows: MEM-07, MEM-09
#[test]
fn what_happened_to_the_index_is_said_beside_the_answer() {
    let session = Watched::new();
    session.uses(20);
    session.environment.run(&["checkpoint"]).expect(0);
    let mut server = Server::start(&session.environment);
    server.greet();
    let params = json!({"name": "search", "arguments": {"query": "checkpoint"}});
    let mut search = || {
        let told = server.ask("tools/call", &params)["result"]["content"][0]["text"].clone();
        told.as_str().unwrap().to_owned()
    };
    let found = search();
    let index = "home/.local/state/ekiden/memory/index-2.db";
    let index = session.environment.path(index);
    std::fs::write(index, "no database ".repeat(1_000)).unwrap();
    let said = search();
    let said = said.strip_prefix(&found).expect(&said);
    assert!(said.contains("it was built again"), "{said}");
    assert_eq!(search(), found);
}

/// The client keeps its servers, but its session is another one from then on.
// shows: MEM-09
#[test]
fn after_clear_the_tools_are_about_the_new_session() {
    after_clear(|environment| environment.command(&["mcp"]));
}

/// npm's `ekiden` starts the program and waits for it.
// shows: MEM-09
#[cfg(target_os = "linux")]
#[test]
fn after_clear_the_same_holds_behind_another_process() {
    after_clear(|environment| {
        let ours = environment.command(&[]);
        let mut shell = Command::new("sh");
        let script = format!("'{}' mcp; :", env!("CARGO_BIN_EXE_ekiden"));
        shell.args(["-c", &script]).current_dir(environment.dir());
        let variables = ours.get_envs();
        shell.env_clear();
        shell.envs(variables.filter_map(|(name, value)| Some((name, value?))));
        shell
    });
}

fn after_clear(server: impl Fn(&Environment) -> Command) {
    let client = std::process::id().to_string();
    let environment = Environment::with_git()
        .with("CLAUDE_CODE_SESSION_ID", "old")
        .with("CLAUDE_PID", &client);
    let mut server = Server::of(&mut server(&environment));
    server.greet();
    let begins = |session: &str, source: &str| {
        let input = json!({"session_id": session, "cwd": environment.dir(), "source": source,
            "hook_event_name": "SessionStart"});
        let said = environment.fed(&["hook", "SessionStart"], &input.to_string());
        said.expect(0);
    };
    let mut session = |done: &str| {
        let params = json!({"name": "write_handoff", "arguments": {"done": done}});
        let answer = server.ask("tools/call", &params);
        let text = answer["result"]["content"][0]["text"].as_str().unwrap();
        let document = environment.read(text.strip_prefix("Written: ").expect(text));
        let of = document
            .lines()
            .find_map(|line| line.strip_prefix("session: "));
        of.unwrap_or_default().to_owned()
    };
    begins("old", "startup");
    assert_eq!(session("one"), "old");
    begins("new", "clear");
    assert_eq!(session("two"), "new");
    begins("another", "resume");
    assert_eq!(session("three"), "another");
}

// shows: MEM-09
#[test]
fn a_client_that_goes_away_in_the_middle_ends_the_server() {
    let environment = Environment::with_git();
    for greets in [false, true] {
        let mut server = Server::start(&environment);
        if greets {
            server.greet();
        }
        let cut = r#"{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"sea"#;
        server.input.write_all(cut.as_bytes()).unwrap();
        drop((server.input, server.output));
        assert!(server.child.wait().unwrap().code().is_some());
    }
}

// shows: MEM-09
#[test]
fn the_official_python_client_lists_and_calls_the_tools() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .nth(2)
        .unwrap();
    let python = std::env::var_os("EKIDEN_MCP_PYTHON").map_or(root.join(PYTHON), Into::into);
    if !python.is_file() {
        let line =
            "left out: the official Python client of MCP (mcp-client/README.md installs it)\n";
        assert!(std::env::var_os("EKIDEN_NEED_MCP").is_none(), "{line}");
        let _ = std::io::stderr().write_all(line.as_bytes());
        return;
    }
    let environment = Environment::with_git();
    let hook = json!({"hook_event_name": "UserPromptSubmit", "session_id": "s1", "cwd": environment.dir(),
        "transcript_path": "", "prompt": "Which rounding is right?"});
    environment
        .fed(&["hook", "UserPromptSubmit"], &hook.to_string())
        .expect(0);
    let mut client = Command::new(python);
    let ours = environment.command(&[]);
    client.env_clear().envs(
        ours.get_envs()
            .filter_map(|(name, value)| Some((name, value?))),
    );
    let output = client
        .arg(root.join("mcp-client/try.py"))
        .arg(env!("CARGO_BIN_EXE_ekiden"))
        .current_dir(environment.dir())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
    let told: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(told["protocol"], "2025-11-25", "{told}");
    assert_eq!(told["tools"].as_array().unwrap().len(), 8, "{told}");
    assert_eq!(told["found"][0], "fine");
    for name in ["found", "recent"] {
        let text = told[name][1].as_str().unwrap();
        let marked = text
            .lines()
            .find(|line| line.contains("Which rounding is right?"));
        assert!(marked.unwrap().starts_with("¦ "), "{text}");
    }
    assert_eq!(told["huge"], json!(["fine", "nothing found"]));
    assert_eq!(told["wrong"], json!(["failed", "id is missing"]));
    assert_eq!(told["unknown"][0], "refused", "{told}");
    assert_eq!(told["after"][0], "failed");
}
