//! Estimates: ranges with their reasons, learned from runs; and open items grouped into sessions.

use crate::environment::Environment;
use crate::plan::repository;

const SPEC: &str = "# Port\n\nIn short.\n\n- [x] lexer a.rs\n- [ ] parser a.rs b.rs\n- [ ] printer b.rs\n- [ ] docs\n";

fn environment() -> Environment {
    let environment = repository();
    environment.write("spec.md", SPEC);
    environment.write("a.rs", &"words of it\n".repeat(2_000));
    environment.write("b.rs", &"words of it\n".repeat(1_000));
    environment.commit_all();
    environment
}

// shows: EST-06
#[test]
fn open_items_are_grouped_into_sessions_and_carried_out_as_a_plan() {
    let environment = environment();
    let asked = [
        "estimate",
        "spec.md",
        "--items",
        "--sessions",
        "-o",
        "plan.toml",
    ];
    insta::assert_snapshot!(environment.told(&asked), @r"
    spec.md · 33% to 114% of the usable window
      context   54k to 189k tokens
      sessions  1 to 2
      why       counted 54k: 30 for the text, 36k for 2 files that it names, 3 open items, and what any task takes
      learned   no run with an estimate has finished here: the ranges are wide, and time and cost are unknown
      advice    shard it, into 2 parts

    item                  context
    parser a.rs b.rs  46k to 161k
    printer b.rs       22k to 77k
    docs               10k to 35k

    session      context  needs  items
    S01      46k to 161k         parser a.rs b.rs
    S02       26k to 91k  S01    printer b.rs, docs

    next  ekiden execute plan.toml
    --- exit code 0
    ");
    let plan = environment.read("plan.toml");
    assert!(!plan.contains("lexer"), "{plan}");
    let stages = environment.told(&["estimate", "plan.toml", "--items"]);
    assert!(
        stages.contains("S01 parser a.rs b.rs    46k to 161k\n"),
        "{stages}"
    );
    let told = environment.told(&["execute", "plan.toml", "--agent", "rehearsal", "--yes"]);
    assert!(told.trim_end().ends_with("--- exit code 0"), "{told}");
    // The stages tell the time, in place of runs.
    let environment = environment.with("EKIDEN_AGENT", "rehearsal");
    let again = environment.told(&["estimate", "spec.md"]);
    assert!(
        again.contains("\n  time  ") && again.contains("  no run with"),
        "{again}"
    );
    assert!(!again.contains("unknown"), "{again}");
    let refused = environment.told(&["estimate", "plan.toml", "--sessions", "-o", "other.toml"]);
    assert!(refused.contains("is a plan already"), "{refused}");
}

// shows: EST-06
#[test]
fn where_nothing_is_open_no_plan_is_written() {
    let environment = environment();
    environment.write("done.md", "# T\n\n## One\n\n- [x] a\n\n## Rules\n\nNone.\n");
    insta::assert_snapshot!(environment.told(&["estimate", "done.md", "--sessions", "-o", "done.toml"]), @r"
    --- standard error
    error: nothing is open in done.md
    hint: a plan of it would have no stages
    --- exit code 65
    ");
    assert!(!environment.exists("done.toml"));
}

// shows: EST-004
#[test]
fn what_runs_took_is_learned_from_their_logs() {
    let environment = environment().with("EKIDEN_AGENT", "rehearsal");
    let json = |asked: &str| -> serde_json::Value {
        let told = environment.told(&["estimate", asked, "--json"]);
        let line = told.lines().find(|line| line.starts_with('{'));
        serde_json::from_str(line.expect("an answer")).expect("JSON")
    };
    let before = json("spec.md");
    assert_eq!(
        (&before["samples"], &before["expected"]["duration_ms"]),
        (&0.into(), &serde_json::Value::Null)
    );
    for _ in 0..2 {
        environment.told(&["run", "spec.md", "--new", "--agent", "rehearsal"]);
    }
    let after = json("spec.md");
    let past = after["past"].as_array().expect("a list");
    let kinds: Vec<&str> = past
        .iter()
        .filter_map(|past| past["kind"].as_str())
        .collect();
    assert_eq!(
        kinds.iter().filter(|kind| **kind == "run").count(),
        2,
        "{after}"
    );
    assert!(kinds.contains(&"session"), "{after}");
    let run = past
        .iter()
        .find(|past| past["kind"] == "run")
        .expect("a run");
    assert_eq!(run["estimated"], before["counted"]["tokens"]);
    assert!(
        run["took"]["context_tokens"].as_u64() > Some(0)
            && run["took"]["duration"].as_u64() > Some(0),
        "{after}"
    );
    assert_eq!(
        (&after["samples"], &after["errors"]["samples"]),
        (&2.into(), &1.into())
    );
    assert!(
        after["expected"]["duration_ms"]["p90"].as_u64() > Some(0),
        "{after}"
    );
    for kind in ["read_tokens", "written_tokens"] {
        let told = &after["expected"][kind]["p90"];
        assert!(told.as_u64() > Some(0), "{kind}: {after}");
    }
    assert!(after["expected"]["context_tokens"] != before["expected"]["context_tokens"]);
    let stated = environment.told(&["estimate", "spec.md"]);
    assert!(
        stated.contains("from 2 runs here") && stated.contains("MAPE"),
        "{stated}"
    );
    // What was added to a run was not expected when it began.
    environment.told(&["continue", "And more."]);
    let past = json("spec.md")["past"].to_string();
    assert_eq!(past.matches(r#""kind":"run""#).count(), 1, "{past}");
    let environment = environment.with("EKIDEN_AGENT", "claude");
    let of_model = environment.told(&["estimate", "spec.md"]);
    assert!(
        of_model.contains("learned   no run with an estimate"),
        "{of_model}"
    );
}

// shows: EST-002
#[test]
fn a_run_warns_of_too_few_sessions_and_begins_all_the_same() {
    let environment = environment();
    environment.write("big.rs", &"words of it\n".repeat(30_000));
    environment.write("large.md", "Port big.rs.\n");
    let told = environment.told(&["run", "large.md", "--agent", "rehearsal", "-m", "2"]);
    let warning = told.lines().find(|line| line.contains("may take"));
    let expected =
        "warning: large.md may take up to 11 sessions, and may have 2; `-m 11` allows more";
    assert_eq!(warning, Some(expected), "{told}");
    assert!(told.contains("session 1"), "{told}");
    let small = environment.told(&["run", "spec.md", "--new", "--agent", "rehearsal", "-m", "2"]);
    assert!(!small.contains("may take"), "{small}");
    // Such an agent hands off after three items, however small they are.
    environment.write("list.md", &"- [ ] one\n".repeat(60));
    let given = ["--agent-command", "echo x >> made", "-m", "1"];
    let list = environment.told(&[&["run", "list.md", "--new"][..], &given].concat());
    assert!(list.contains("may take up to 20 sessions"), "{list}");
}

// shows: EST-004
#[test]
fn the_next_command_names_the_work_dir() {
    let environment = environment();
    let next = |words: &[&str]| {
        let asked = ["estimate", "project/spec.md", "-d", "project"];
        let said = environment.run_in("", &[&asked[..], words].concat());
        let said = said.expect(0).stdout;
        said.rsplit_once("next  ").unwrap().1.to_owned()
    };
    let spec = "project/spec.md";
    assert_eq!(next(&[]), format!("ekiden shard {spec} -d project\n"));
    let written = format!("ekiden estimate {spec} --sessions -o project/plan.toml -d project\n");
    assert_eq!(next(&["--sessions"]), written);
    let lines = environment.told(&["estimate", "--", "- [ ] one\n- [ ] two\n"]);
    assert!(lines.contains("next  ekiden run TASK\n"), "{lines}");
}

// shows: EST-004
#[test]
fn an_issue_is_estimated_and_the_next_command_runs_it() {
    let environment = environment();
    environment.run(&["issue", "new", "Port it"]).expect(0);
    let told = environment.run(&["estimate", "port-it"]).expect(0).stdout;
    assert!(told.starts_with("port-it Port it · "), "{told}");
    assert!(
        told.ends_with("next  ekiden run --issue port-it\n"),
        "{told}"
    );
    let told = environment.told(&["estimate", "nope.md"]);
    assert!(told.contains("error: there is no file `nope.md`"), "{told}");
}
