//! Readers of what strangers write: no change of a good text makes one panic.

use std::fs;
use std::io::Cursor;
use std::path::Path;

use ekiden_core::handoff::{
    FileText, HandoffFile, HandoffFiles, Marker, accept, inspect, open_items,
};
use ekiden_core::knowledge::{Knowledge, NewKnowledge};
use ekiden_core::record::Record;
use ekiden_core::shard::{Shards, Spec, Split};
use ekiden_manifest::{Defaults, Syntax, TextAlone, planned};
use ekiden_testkit::fuzz::fuzz;
use ekiden_wire::client_settings;
use ekiden_wire::context_usage::ContextUsage;
use ekiden_wire::hooks::HookCall;
use ekiden_wire::lines::read_lines;
use ekiden_wire::recall::Recall;
use ekiden_wire::saved::Saved;
use ekiden_wire::status_line::StatusInput;
use ekiden_wire::trace::Trace;
use ekiden_wire::transcript::Recent;

/// The files of a crate's folder with this ending, whole or line by line.
fn files(folder: &str, ending: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("..")
        .join(folder);
    let entries =
        fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut paths: Vec<_> = entries
        .map(|entry| entry.expect("an entry").path())
        .collect();
    paths.retain(|path| path.extension().is_some_and(|is| is == ending));
    paths.sort();
    assert!(!paths.is_empty(), "{}: no {ending}", folder.display());
    paths
        .iter()
        .map(|path| fs::read(path).expect("a fixture"))
        .collect()
}

fn lines(folder: &str, ending: &str) -> Vec<Vec<u8>> {
    let files = files(folder, ending);
    let lines = files
        .iter()
        .flat_map(|file| file.split(|byte| *byte == b'\n'));
    lines
        .filter(|line| !line.is_empty())
        .map(<[u8]>::to_vec)
        .collect()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

// shows: SEC-04
#[test]
fn event_streams_and_transcripts() {
    let mut samples = files("ekiden-wire/fixtures", "jsonl");
    samples.extend(files("ekiden-wire/fixtures/claude", "jsonl"));
    fuzz("the event stream's reader", &samples, |bytes| {
        let (mut trace, mut saved) = (Trace::default(), Saved::default());
        read_lines(bytes, |line| saved.read(line, |event| trace.observe(event))).unwrap();
    });
    fuzz("a transcript's reader", &samples, |bytes| {
        Trace::from_transcript(bytes).unwrap();
        Recall::of(&mut Cursor::new(bytes)).unwrap();
        Recent::of(&mut Cursor::new(bytes)).unwrap();
    });
}

// shows: SEC-04
#[test]
fn what_the_client_gives_to_hooks() {
    let samples = lines("ekiden-wire/fixtures", "jsonl");
    fuzz("the hook's reader", &samples, |bytes| {
        HookCall::parse(&text(bytes));
        StatusInput::parse(&text(bytes));
    });
    let samples = files("ekiden-wire/fixtures", "json");
    fuzz("the reader of the context's use", &samples, |bytes| {
        if let Ok(value) = serde_json::from_slice(bytes) {
            ContextUsage::of(&value);
        }
    });
}

// shows: SEC-04
#[test]
fn settings_of_the_client() {
    let plain = br#"{ // mine
  "hooks": {"Stop": [{"hooks": [{"type": "command", "command": "x", "timeout": 5}]}]},
  "permissions": {"allow": ["Bash(ls:*)"], "deny": []}, "statusLine": {"type": "command", "command": "y"},
}"#;
    let installed = client_settings::install(&text(plain), "/usr/bin/ekiden").unwrap();
    let samples = [plain.to_vec(), installed.text.into_bytes()];
    fuzz("the editor of settings", &samples, |bytes| {
        let given = text(bytes);
        // What is put in once is not put in again.
        if let Ok(once) = client_settings::install(&given, "/usr/bin/ekiden") {
            let twice = client_settings::install(&once.text, "/usr/bin/ekiden").unwrap();
            assert_eq!(once.text, twice.text);
        }
    });
}

// shows: SEC-04
#[test]
fn handoffs_and_knowledge() {
    let samples = files("ekiden-core/src/handoff/fixtures", "md");
    let marker = Marker::default();
    fuzz("the handoff's reader", &samples, |bytes| {
        let mut files = HandoffFiles::default();
        for file in [
            HandoffFile::Progress,
            HandoffFile::NextPrompt,
            HandoffFile::Knowledge,
        ] {
            *files.get_mut(file) = FileText::Text(text(bytes));
        }
        let inspection = inspect(&files, &marker);
        assert_eq!(accept(&files, &inspection).is_ok(), inspection.is_valid());
        open_items(&text(bytes));
        NewKnowledge::parse(&text(bytes));
        Knowledge::parse(&text(bytes));
    });
}

// shows: SEC-04
#[test]
fn manifests_and_specifications() {
    let ours = files("ekiden-manifest/src/fixtures", "toml");
    let json = files("ekiden-manifest/src/fixtures", "json");
    let yaml = files("ekiden-manifest/src/fixtures", "yaml");
    for (syntax, samples) in [
        (Syntax::Toml, ours),
        (Syntax::Json, json),
        (Syntax::Yaml, yaml),
    ] {
        fuzz(&format!("the reader of {syntax:?}"), &samples, |bytes| {
            let _ = planned(&text(bytes), None);
            let _ =
                ekiden_manifest::read(&text(bytes), syntax, &Defaults::default(), &mut TextAlone);
        });
    }
    let samples = files("ekiden-core/src/shard/fixtures", "md");
    fuzz("what splits a specification", &samples, |bytes| {
        let text = text(bytes);
        let spec = Spec {
            text: &text,
            file_bytes: &[].into(),
            window_tokens: 2_000,
        };
        Shards::of(&spec, Split::Into(3));
        Shards::of(&spec, Split::Max(10));
    });
}

// shows: SEC-04
#[test]
fn logs() {
    let samples = lines("ekiden-core/fixtures", "jsonl");
    fuzz("a record's reader", &samples, |bytes| {
        let _ = serde_json::from_slice::<Record>(bytes);
    });
}
