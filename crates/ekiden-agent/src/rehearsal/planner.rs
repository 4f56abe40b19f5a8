//! The mind of a planning session: an idea becomes a document, a document becomes stages. Pure.
//!
//! It is no planner: it copies. The document repeats the idea's first paragraph and its items with
//! their blocks; each item becomes a stage, whose prompt is that item. An item that says `(after: 1)` waits
//! for the first one, all others stand beside each other. A block marked `check` is the stage's validation.
//!
//! As in a relay, it knows of its session what the prompt says. The document's lines are marked as data
//! there, and become data again: text of a manifest that a person approves.

use std::collections::VecDeque;
use std::path::PathBuf;

use ekiden_core::text::one_line;
use serde_json::{Value, json};

use super::checklist::{self, Item};
use super::prompt::MARK;
use super::work::{Move, Outcome, Tool};

const IDEA: &str = "# Idea\n\n";
const DOCUMENT: &str = "# Document\n\n";
const WRITE_TO: &str = "\n# Document\n\nWrite it to this file:\n";
/// What an item says that waits for others.
const AFTER: &str = "(after:";
/// The most of an idea that names a project, in characters.
const PROJECT_CHARS_MAX: usize = 60;
const UNCHECKED: &str = "The item names no check, so only the agent says when it is done.";

/// The mind of a planning session.
pub(super) struct Planner {
    dir: PathBuf,
    /// What it writes in every turn.
    file: Option<(PathBuf, String)>,
    /// What it answers in every turn, where a schema is asked for.
    manifest: Option<Value>,
    /// Files that this turn still writes.
    left: VecDeque<(PathBuf, String)>,
    /// A call that failed, for its last words.
    failed: Option<String>,
}

impl Planner {
    /// A mind that knows nothing yet.
    pub(super) fn new(dir: PathBuf) -> Self {
        Self { dir, file: None, manifest: None, left: VecDeque::new(), failed: None }
    }

    /// Reads a message. One that is no prompt asks for the same again.
    pub(super) fn read(&mut self, blocks: &[String]) {
        let stable = blocks.first().map(String::as_str).unwrap_or_default();
        if let Some((idea, path)) = stable.strip_prefix(IDEA).and_then(|rest| rest.rsplit_once(WRITE_TO)) {
            self.file = Some((self.dir.join(path.trim()), document(idea)));
        } else if let Some(quoted) = stable.strip_prefix(DOCUMENT) {
            let lines = quoted.lines().filter_map(|line| line.strip_prefix(MARK));
            self.manifest = Some(manifest(&lines.collect::<Vec<_>>().join("\n")));
        }
        self.failed = None;
        self.left = self.file.iter().cloned().collect();
    }

    /// What comes next.
    pub(super) fn next(&mut self) -> Move {
        if let Some((path, content)) = self.left.pop_front() {
            return Move::Call {
                words: "Writing the document.".to_owned(),
                tool: Tool::Write { path, content },
            };
        }
        let words = match (&self.failed, &self.file, &self.manifest) {
            (Some(why), ..) => format!("The document is not written: {why}"),
            (None, Some(_), _) => "The document is written.".to_owned(),
            (None, None, Some(_)) => "The document is split.".to_owned(),
            (None, None, None) => "There is nothing to plan in this conversation.".to_owned(),
        };
        Move::End { words }
    }

    /// Takes note of what the last call came to.
    pub(super) fn saw(&mut self, outcome: &Outcome) {
        self.failed = match outcome {
            Outcome::Ran(_) | Outcome::Fine => None,
            Outcome::Failed(why) | Outcome::Denied(why) => Some(why.clone()),
        };
    }

    /// The answer of this turn, as JSON text.
    pub(super) fn answer(&self) -> Option<String> {
        self.manifest.as_ref().map(Value::to_string)
    }
}

fn document(idea: &str) -> String {
    let items = checklist::items(idea);
    let said = first_paragraph(idea);
    let items = match items.is_empty() {
        true => format!("- [ ] {}\n", one_line(&said, PROJECT_CHARS_MAX)),
        false => items.iter().map(block).collect::<Vec<_>>().join("\n"),
    };
    format!("## Summary\n\n{said}\n\n## Items\n\n{items}")
}

/// The first lines that are neither headings nor items.
fn first_paragraph(idea: &str) -> String {
    let prose = |line: &&str| !line.starts_with('#') && checklist::item_line(line).is_none();
    let lines = idea.lines().map(str::trim).skip_while(|line| line.is_empty() || !prose(line));
    let paragraph: Vec<&str> = lines.take_while(|line| !line.is_empty() && prose(line)).collect();
    if paragraph.is_empty() { one_line(idea, PROJECT_CHARS_MAX) } else { paragraph.join("\n") }
}

/// An item as a list has it.
fn block(item: &Item) -> String {
    let tick = if item.ticked { 'x' } else { ' ' };
    let scripts = item.scripts.iter().map(|script| fenced(script.shell, &script.text));
    let check = item.check.iter().map(|check| fenced(checklist::CHECK, check));
    let blocks: String = scripts.chain(check).collect();
    format!("- [{tick}] {}\n{blocks}", item.name)
}

/// A fence that nothing in the text closes.
fn fenced(word: &str, text: &str) -> String {
    let runs = text.split(|c| c != '`').map(str::len);
    let fence = "`".repeat(runs.max().unwrap_or(0).max(2) + 1);
    let end = if text.ends_with('\n') { "" } else { "\n" };
    format!("\n{fence}{word}\n{text}{end}{fence}\n")
}

fn manifest(document: &str) -> Value {
    let project = one_line(&first_paragraph(document), PROJECT_CHARS_MAX);
    let items = checklist::items(document);
    let stages: Vec<Value> = items.iter().enumerate().map(|(at, item)| stage(at, item)).collect();
    json!({ "format": 1, "project": project, "stage": stages })
}

fn stage(at: usize, item: &Item) -> Value {
    let (name, needs) = name_and_needs(&item.name);
    let alone = Item { check: None, ..item.clone() };
    let mut stage = json!({ "id": id(at + 1), "name": name, "prompt": block(&alone) });
    if !needs.is_empty() {
        stage["needs"] = json!(needs);
    }
    match &item.check {
        Some(check) => stage["validation"] = json!({ "kind": "command", "command": check.trim_end() }),
        None => stage["description"] = json!(UNCHECKED),
    }
    stage
}

/// An item's text without the note of what it waits for, and the ids in that note.
fn name_and_needs(text: &str) -> (String, Vec<String>) {
    let Some((before, note)) = text.split_once(AFTER) else { return (text.to_owned(), Vec::new()) };
    let Some((numbers, after)) = note.split_once(')') else { return (text.to_owned(), Vec::new()) };
    let needs = numbers.split(',').filter_map(|number| number.trim().parse().ok()).map(id).collect();
    (one_line(&format!("{} {}", before.trim(), after.trim()), PROJECT_CHARS_MAX), needs)
}

fn id(number: usize) -> String {
    format!("S{number:02}")
}

#[cfg(test)]
mod tests {
    use ekiden_core::manifest::planned;
    use ekiden_core::prompt::{PromptBlocks, architecture_prompt, split_prompt};

    use super::*;

    const IDEA: &str = "# Tea\n\nA shop for tea.\nSmall.\n\n- [ ] Brew\n\n  ```sh\n  echo tea > tea.txt\n  ```\n  ```check\n  \
                        test -s tea.txt\n  ```\n- [ ] Drink (after: 1)\n";

    fn read(planner: &mut Planner, prompt: &PromptBlocks) {
        planner.read(&prompt.blocks().map(str::to_owned).collect::<Vec<_>>());
    }

    fn written(idea: &str) -> String {
        let mut planner = Planner::new("/p".into());
        read(&mut planner, &architecture_prompt(idea, "architecture.md"));
        let Move::Call { tool: Tool::Write { path, content }, .. } = planner.next() else { panic!() };
        assert_eq!(path, PathBuf::from("/p/architecture.md"));
        assert!(matches!(planner.next(), Move::End { .. }) && planner.answer().is_none());
        content
    }

    fn split(document: &str) -> String {
        let mut planner = Planner::new("/p".into());
        read(&mut planner, &split_prompt(document, "architecture.md", 80_000));
        assert!(matches!(planner.next(), Move::End { .. }));
        planner.answer().unwrap()
    }

    // shows: PLN-01, AGT-05
    #[test]
    fn the_document_repeats_the_idea_and_each_item_becomes_a_stage() {
        let document = written(IDEA);
        expect_test::expect![[r"
            ## Summary

            A shop for tea.
            Small.

            ## Items

            - [ ] Brew

            ```sh
            echo tea > tea.txt
            ```

            ```check
            test -s tea.txt
            ```

            - [ ] Drink (after: 1)
        "]]
        .assert_eq(&document);
        let plan = planned(&split(&document), Some("architecture.md")).unwrap().document;
        assert_eq!(plan.project, "A shop for tea. Small.");
        let names: Vec<&str> = plan.stages.iter().map(|stage| stage.name.as_str()).collect();
        assert_eq!(names, ["Brew", "Drink"]);
        assert_eq!(plan.stages[1].needs[0].stage.as_str(), "S01");
    }

    #[test]
    fn an_idea_without_items_is_one_stage() {
        let plan = planned(&split(&written("Port it to Rust")), None).unwrap().document;
        assert_eq!(plan.stages.len(), 1);
    }

    #[test]
    fn what_is_asked_again_is_answered_again() {
        let mut planner = Planner::new("/p".into());
        read(&mut planner, &architecture_prompt(IDEA, "a.md"));
        planner.next();
        planner.read(&["ekiden: the document is not there.".to_owned()]);
        assert!(matches!(planner.next(), Move::Call { .. }));
    }
}
