//! Manifests that are wrong, by mistake or on purpose, and every word that is said about them.

use std::fmt::Write as _;

use expect_test::expect_file;
use proptest::prelude::*;

use super::{Syntax, faults, own, read, stage};

fn toml_cases() -> Vec<(&'static str, String)> {
    let one = |more: &str| own(&stage("S01", more));
    vec![
        ("empty file", String::new()),
        ("no stages", own("")),
        ("empty list of stages", own("stage = []")),
        ("newer format", own("").replace('1', "2")),
        ("format as text", own(&stage("a", "")).replace('1', "\"1\"")),
        ("broken syntax", own("[[stage]\n")),
        ("key twice", one("name = \"m\"")),
        ("misspelt fields", one("promt = \"x\"\nneed = []\nzzz = 1")),
        ("mistyped fields", one("retries = \"2\"\nneeds = \"S02\"\nsessions_max = 1.5\nknowledge_apart = 1\ncontext = {}")),
        ("mistyped entries", one("needs = [1, []]\ncontext = [true]\noutputs = [2026-01-01]")),
        ("out of range", one("retries = 11\nsessions_max = 0\nturns_max = 100001\nsession_tokens = 0\nsession_budget_usd = -1\nestimate_tokens = -1")),
        ("jobs out of range", format!("jobs = 65\n{}", own(&stage("a", "")))),
        ("infinite budget", one("session_budget_usd = inf")),
        ("number beyond 64 bits", one("estimate_tokens = 99999999999999999999")),
        ("exit code out of range", one("validation = { kind = \"command\", command = \"x\", exit_code = 256 }")),
        ("empty texts", own("[[stage]]\nid = \"\"\nname = \" \"\nprompt = \"\"")),
        ("missing fields", own("[[stage]]\n")),
        ("prompt twice", one("prompt_file = \"a.md\"")),
        ("invalid ids", own(&[stage("a b", ""), stage(".x", ""), stage("a..b", ""), stage("x.lock", ""), stage(&"y".repeat(65), "")].concat())),
        ("same id", own(&[stage("S01", ""), stage("S02", ""), stage("S01", "")].concat())),
        ("same id but for case", own(&[stage("s1", ""), stage("S1", "")].concat())),
        ("unknown need", own(&[stage("S01", ""), stage("S02", "needs = [\"S9\"]"), stage("S09", "")].concat())),
        ("needs itself", one("needs = [\"S01\"]")),
        ("cycles", own(&[stage("A", "needs = [\"B\", \"C\"]"), stage("B", "needs = [\"A\"]"), stage("C", "needs = [\"A\"]")].concat())),
        ("long cycle", own(&(0..40).map(|i| stage(&format!("s{i}"), &format!("needs = [\"s{}\"]", (i + 1) % 40))).collect::<String>())),
        ("paths that lead out", one("context = [\"/etc/passwd\", \"../x\", \"~/.ssh/id\", \"C:\\\\x\", \"a/{b,..}/c\"]\nprompt_file = \"..\"").replace("prompt = \"p\"\n", "")),
        ("paths that hide", one("context = [\"a\\u0000\", \"a\\u001B[2J\", \"a\\u202Eb\", \"\"]")),
        ("outputs into git", one("outputs = [\".git/hooks/pre-commit\", \"sub/.GIT/config\", \".ekiden/config.toml\", \".\"]")),
        ("copies of git", format!("{}[worktree]\ncopy = [\".git/config\", \"../.env\"]\nsetup = \"\"\n", own(&stage("a", "")))),
        ("architecture elsewhere", format!("architecture = \"/etc/passwd\"\n{}", own(&stage("a", "")))),
        ("bad globs", one("outputs = [\"a[\", \"{a\"]\nvalidation = { kind = \"files\", files = [\"[z-a]\"] }")),
        ("empty command", one("validation = { kind = \"command\", command = \"  \" }")),
        ("no command", one("validation = { kind = \"command\" }")),
        ("command that hides", one("validation = { kind = \"command\", command = \"true \\u202E# mr\" }")),
        ("comma for command", one("validation = { kind = \"comma\", comma = \"x\" }")),
        ("no files", one("validation = { kind = \"files\", files = [] }")),
        ("another program's fields", one("depends_on = [\"S02\"]\ndependsOn = []\ntype = \"x\"\nrequires = []")),
        ("near misses of choices", one("on_fail = \"Stop\"\nvalidation = { kind = \"comand\" }")),
        ("a table of stages", own("[stage]\nid = \"S01\"\n")),
        ("texts for tables and lists", one("validation = \"npm test\"\nneeds = \"S02\"")),
        ("a text for the checks", format!("validation = \"npm test\"\n{}", own(&stage("a", "")))),
        ("words that differ in what is not seen", own(&[stage("a", "needs = [\" a\", \"\", \"a\\u200b\", \"b  c\", \"b\\nc\"]"), stage("b c", "")].concat())),
        ("another name for stages", "format = 1\nproject = \"p\"\n[[stages]]\nid = \"a\"\n".to_owned()),
        ("fields of another kind", one("validation = { kind = \"none\", command = \"x\", files = [\"a\"] }")),
        ("kinds without commands", own(&[stage("a", "validation = { kind = \"test\" }"), stage("b", "validation = { kind = \"lint\" }")].concat())),
        ("empty check", format!("{}[validation]\ntest = \"\"\nlnt = \"x\"\n", own(&stage("a", "")))),
        ("same output", own(&[stage("a", "outputs = [\"x.rs\"]"), stage("b", "outputs = [\"./x.rs\"]")].concat())),
        ("output in a directory", own(&[stage("a", "outputs = [\"src\"]"), stage("b", "outputs = [\"src/a.rs\"]"), stage("c", "outputs = [\"srca\"]")].concat())),
        ("a directory twice", own(&[stage("a", "outputs = [\"src\"]"), stage("b", "outputs = [\"src/\"]")].concat())),
        ("output under a glob", own(&[stage("a", "outputs = [\"src/\"]"), stage("b", "outputs = [\"src/a/x.rs\"]"), stage("c", "needs = [\"a\", \"b\"]\noutputs = [\"src/*.rs\"]")].concat())),
        ("prompt too long", one("").replace("\"p\"", &format!("\"{}\"", "x".repeat(6_001)))),
        ("marker of two words", one("marker = \"all done\"")),
        ("escape sequences", own("[[stage]]\nid = \"\\u001B[31mred\"\nname = \"\\u001B]0;owned\\u0007\"\nprompt = \"p\"\n\"\\u001B[2Jx\" = 1")),
        ("brackets in brackets", format!("a = {}1{}", "[".repeat(20_000), "]".repeat(20_000))),
        ("keys in keys", format!("{} = 1", vec!["a"; 70].join("."))),
        ("keys in tables in keys", format!("{}x = 1{}", format!("{} = {{", vec!["a"; 70].join(".")).repeat(70), "}".repeat(70))),
        ("many faults", own(&(0..70).map(|i| format!("[[stage]]\nid = \"s{i}\"\n")).collect::<String>())),
    ]
}

fn json_cases() -> Vec<(&'static str, String)> {
    let casm = include_str!("../fixtures/casm.json");
    vec![
        ("not JSON", "{ \"project\": \"p\",\n  oops }".to_owned()),
        ("cut off", casm[..900].to_owned()),
        ("a list", "[]".to_owned()),
        ("two values", "{}\n{}".to_owned()),
        (
            "key twice",
            "{\"format\": 1,\n\"project\": \"a\",\n\"project\": \"b\",\"stage\":[]}".to_owned(),
        ),
        ("brackets in brackets", "[".repeat(100_000)),
        ("tables in tables", "{\"a\":".repeat(100)),
        (
            "count mismatch",
            casm.replace("\"total_sessions\": 8", "\"total_sessions\": 7"),
        ),
        (
            "comma for command",
            casm.replacen("\"command\": \"npm i", "\"comma\": \"npm i", 1),
        ),
        (
            "no depends_on, no validation",
            "{\"project\":\"p\",\"sessions\":[\n{\"id\":\"S01\",\"name\":\"n\",\"prompt\":\"p\"}]}"
                .to_owned(),
        ),
        (
            "nothing where text should be",
            casm.replacen("\"id\": \"S01\"", "\"id\": null", 1),
        ),
        (
            "sessions are no tables",
            "{\"project\":\"p\",\"sessions\":[1,\n\"S01\"]}".to_owned(),
        ),
        (
            "absolute output",
            casm.replacen("src/db.ts\"\n", "/src/db.ts\"\n", 1),
        ),
        (
            "cycle",
            casm.replacen("\"depends_on\": []", "\"depends_on\": [\"S03\"]", 1),
        ),
        (
            "a near miss of a type",
            casm.replacen("\"type\": \"command\"", "\"type\": \"Command \"", 1),
        ),
        (
            "no sessions",
            "{\"project\": \"p\", \"sessions\": null}".to_owned(),
        ),
        (
            "no stage in a list of them",
            "{\"format\": 1, \"project\": \"p\", \"stage\": {}}".to_owned(),
        ),
        (
            "fractions",
            casm.replacen("25000", "25000.5", 1).replacen(
                "\"max_turns\": 30",
                "\"max_turns\": 1e30",
                1,
            ),
        ),
        ("surrogate alone", "{\"project\": \"\\ud800\"}".to_owned()),
    ]
}

fn yaml_cases() -> Vec<(&'static str, String)> {
    let cleave = include_str!("../fixtures/pipeline.yaml");
    let laughs: String = (1..12)
        .map(|i| {
            format!(
                "a{i}: &a{i} [{}]\n",
                vec![format!("*a{}", i - 1); 10].join(", ")
            )
        })
        .collect();
    vec![
        ("empty", String::new()),
        ("broken", "stages:\n  - name: [\n".to_owned()),
        ("tab", "stages:\n\t- name: a\n".to_owned()),
        ("two documents", format!("{cleave}---\n{cleave}")),
        ("key twice", "name: a\nstages: []\nname: b\n".to_owned()),
        (
            "a billion laughs",
            format!("a0: &a0 [lol, lol]\n{laughs}stages: []\n"),
        ),
        ("an alias of itself", "stages: &a\n  - *a\n".to_owned()),
        ("no stages", "name: x\nstages:\n".to_owned()),
        (
            "a word is taken over",
            "stages:\n  - name: a\n    <<: x\n".to_owned(),
        ),
        (
            "words are taken over",
            "stages:\n  - name: a\n    <<: [{}, x]\n".to_owned(),
        ),
        ("nothing is taken over", "<<:\nstages: []\n".to_owned()),
        (
            "taken over twice",
            "a: &a {b: 1}\n<<: *a\n<<: *a\nstages: []\n".to_owned(),
        ),
        ("a billion of what is taken over", {
            let more: String = (1..12)
                .map(|i| {
                    format!(
                        "a{i}: &a{i}\n  <<: *a{}\n  b{i}: [{}]\n",
                        i - 1,
                        vec![format!("*a{}", i - 1); 9].join(", ")
                    )
                })
                .collect();
            format!("a0: &a0 {{x: 1}}\n{more}stages: []\n")
        }),
        ("brackets in brackets", "[".repeat(10_000)),
        ("dashes in dashes", "- ".repeat(10_000)),
        ("a list as a key", "? [a]\n: b\n".to_owned()),
        (
            "unknown requirement",
            cleave.replace("[research]", "[reserch]"),
        ),
        (
            "number for a name",
            cleave.replace("name: research", "name: 1"),
        ),
        (
            "prompt elsewhere",
            cleave.replace("prompts/api.md", "/etc/passwd"),
        ),
        (
            "another onFail",
            cleave.replace("onFail: stop", "onFail: explode"),
        ),
        (
            "empty verify",
            cleave.replace("test -f dist/index.html", "\"\""),
        ),
        (
            "no prompt",
            cleave.replace("    prompt: prompts/data.md\n", ""),
        ),
        ("same name", cleave.replace("demo data", "research")),
    ]
}

// shows: PLN-06, PLN-11, PLN-23, SEC-01
#[test]
fn every_fault_is_told_with_its_line() {
    let mut told = String::new();
    let all = [
        (Syntax::Toml, toml_cases()),
        (Syntax::Json, json_cases()),
        (Syntax::Yaml, yaml_cases()),
    ];
    for (syntax, cases) in all {
        for (name, text) in cases {
            let faults = faults(&text, syntax);
            let plain = faults.chars().all(|c| c == '\n' || !c.is_control());
            assert!(plain && !faults.contains('\u{202e}'), "{name}: {faults:?}");
            let _ = write!(told, "{syntax:?}: {name}\n{faults}\n");
        }
    }
    assert!(!told.contains("\nnone\n"), "{told}");
    expect_file!["hostile.txt"].assert_eq(&told);
}

/// What an unoptimised program has to spare: half the stack of a thread.
const STACK_BYTES: usize = 1 << 20;

fn read_on_a_small_stack(text: String, syntax: Syntax) -> String {
    let reader = std::thread::Builder::new().stack_size(STACK_BYTES);
    let reader = reader.spawn(move || faults(&text, syntax)).unwrap();
    reader.join().unwrap()
}

/// The deepest values that the libraries would read, for a program built without optimisation.
// shows: SEC-01
#[test]
fn no_depth_exhausts_the_stack() {
    let (keys, deep) = (vec!["a"; 79].join("."), "values lie more than 32 deep");
    let texts = [
        (Syntax::Json, "[".repeat(511) + &"]".repeat(511)),
        (Syntax::Json, "{\"a\":[".repeat(255) + &"]}".repeat(255)),
        (
            Syntax::Toml,
            format!(
                "{}x = 1{}",
                format!("{keys} = {{").repeat(79),
                "}".repeat(79)
            ),
        ),
        (Syntax::Toml, format!("{keys} = {{ ]").repeat(79)),
        (Syntax::Toml, format!("{keys} = [ {{ }} ").repeat(79)),
        (
            Syntax::Toml,
            format!("[{keys}]\n{keys} = {}1", "[".repeat(62)),
        ),
        (Syntax::Yaml, "- ".repeat(10_000)),
    ];
    for (syntax, text) in texts {
        let begins = text[..30.min(text.len())].to_owned();
        let told = read_on_a_small_stack(text, syntax);
        let is_refused = told.contains(deep) || told.contains("not valid");
        assert!(is_refused, "{begins}: {told}");
    }
}

proptest! {
    // shows: SEC-01
    #[test]
    fn no_repeated_brackets_and_keys_exhaust_the_stack(
        parts in prop::collection::vec(0..12_usize, 1..5),
    ) {
        let keys = vec!["a"; 79].join(".");
        let (table, list) = (format!("{keys} = {{"), format!("{keys} = ["));
        let words = [&table, &list, &keys, " = ", "{", "}", "[", "]", ",", "\n", "1.5,", "'"];
        let text: String = parts.into_iter().map(|part| words[part]).collect();
        read_on_a_small_stack(text.repeat(100), Syntax::Toml);
    }

    // shows: SEC-01
    #[test]
    fn no_text_makes_the_readers_panic(text in "[-a-z0-9{}\\[\\]:,.\"'&*#|>?!%=\\\\\n \t]{0,200}") {
        for syntax in [Syntax::Toml, Syntax::Json, Syntax::Yaml] {
            let _ = read(&text, syntax);
        }
    }

    // shows: SEC-01
    #[test]
    fn no_change_of_a_good_file_makes_the_readers_panic(at in any::<prop::sample::Index>(), with in ".{0,4}") {
        let files = [
            (Syntax::Toml, include_str!("../fixtures/own.toml")),
            (Syntax::Json, include_str!("../fixtures/casm.json")),
            (Syntax::Yaml, include_str!("../fixtures/pipeline.yaml")),
        ];
        for (syntax, file) in files {
            let at = at.index(file.len());
            let text = format!("{}{with}{}", &file[..at], &file[(at + 1).min(file.len())..]);
            let _ = read(&text, syntax);
        }
    }
}
