//! The mind of a planning session: an idea becomes a document, a document becomes stages. Pure.
//!
//! It only copies. The document repeats the idea's first paragraph and its items with their blocks. Each item becomes
//! a stage, and the item is the stage's prompt. An item that says `(after: 1)` waits for the first one; all others are
//! independent. A block marked `check` is the stage's validation. Before a task begins, it asks the user those lines
//! of the task that end with a question mark. It approves what it reviews unless a scenario says otherwise.
//!
//! In the prompt the document's lines are marked as data. They stay data: the text of a manifest that a person
//! approves.

use std::path::PathBuf;

use ekiden_core::text::one_line;
use serde_json::{Value, json};

use super::checklist::{self, Item};
use super::prompt::MARK;
use super::tool::{Outcome, Tool};
use super::turn::{Mind, Move};

const IDEA: &str = "# Idea\n\n";
const PARTS: &str = "# Parts\n\n";
const DONE: &str = "# Task of the run\n\n";
const DOCUMENT: &str = "# Document\n\n";
const TASK: &str = "# Task to ask about\n\n";
const REVIEWED: &str = "# Task\n\n";
const WRITE_TO: &str = "\n# Document\n\nWrite it to this file:\n";
/// The text by which an item says that it waits for others.
const AFTER: &str = "(after:";
/// How much of an idea names a project, in characters.
const PROJECT_CHARS_MAX: usize = 60;
const UNCHECKED: &str = "The item names no check, so only the agent says when it is done.";

pub(super) struct Planner {
    dir: PathBuf,
    plan: Plan,
}

enum Plan {
    Nothing,
    /// It writes a document in every turn; whether it has done so in this one.
    Document {
        write: Tool,
        written: bool,
    },
    /// It answers with a manifest in every turn.
    Manifest(Value),
    /// It asks about a task, or names parts.
    Questions(Value),
    /// It judges work, and objects to none.
    Review,
}

impl Planner {
    pub(super) fn new(dir: PathBuf) -> Self {
        Self {
            dir,
            plan: Plan::Nothing,
        }
    }
}

impl Mind for Planner {
    /// A message that is not a prompt asks for the same again.
    fn read(&mut self, blocks: &[String]) {
        let stable = blocks.first().map(String::as_str).unwrap_or_default();
        let idea = stable.strip_prefix(IDEA).or(stable.strip_prefix(DONE));
        if let Some((idea, path)) = idea.and_then(|rest| rest.rsplit_once(WRITE_TO)) {
            let path = self.dir.join(path.trim());
            let content = document(idea);
            self.plan = Plan::Document {
                write: Tool::Write { path, content },
                written: false,
            };
        } else if let Some(quoted) = stable.strip_prefix(PARTS) {
            self.plan = Plan::Questions(in_a_row(quoted));
        } else if let Some(quoted) = stable.strip_prefix(DOCUMENT) {
            let lines = quoted.lines().filter_map(|line| line.strip_prefix(MARK));
            self.plan = Plan::Manifest(manifest(&lines.collect::<Vec<_>>().join("\n")));
        } else if let Some(task) = stable.strip_prefix(TASK) {
            self.plan = Plan::Questions(asked_back(task));
        } else if stable.starts_with(REVIEWED) {
            self.plan = Plan::Review;
        } else if let Plan::Document { written, .. } = &mut self.plan {
            *written = false;
        }
    }

    fn next(&mut self) -> Move {
        let words = match &mut self.plan {
            Plan::Document { write, written } if !*written => {
                *written = true;
                return Move::Call {
                    words: "Writing the document.".to_owned(),
                    tool: write.clone(),
                };
            }
            Plan::Document { .. } | Plan::Manifest(_) => "The plan is made.",
            Plan::Questions(_) => "These are the questions.",
            Plan::Review => "The review is done.",
            Plan::Nothing => "There is nothing to plan in this conversation.",
        };
        Move::End {
            words: words.to_owned(),
        }
    }

    /// The session that asked for the document sees whether it is there.
    fn saw(&mut self, _outcome: &Outcome) {}

    fn answer(&self) -> Option<String> {
        match &self.plan {
            Plan::Manifest(answer) | Plan::Questions(answer) => Some(answer.to_string()),
            Plan::Review => Some(json!({"verdict": "pass", "findings": []}).to_string()),
            Plan::Nothing | Plan::Document { .. } => None,
        }
    }
}

/// The parts of a document, each of which depends on the one before. The titles get a mark.
fn in_a_row(quoted: &str) -> Value {
    let lines = quoted.lines().map_while(|line| line.strip_prefix(MARK));
    let mut before: Vec<String> = Vec::new();
    let parts = lines.filter_map(|line| {
        let (id, rest) = line.split_once("  ")?;
        let title = rest.split("  ").next()?.trim();
        let needs = std::mem::replace(&mut before, vec![id.to_owned()]);
        Some(json!({"id": id, "title": format!("Do: {title}"), "needs": needs}))
    });
    json!({"parts": parts.collect::<Vec<_>>()})
}

/// Asks the user a line of the task that ends with a question mark.
fn asked_back(task: &str) -> Value {
    let asked = task.lines().filter(|line| line.ends_with('?'));
    let asked = asked.map(|line| json!({"question": line, "default": "As you think best."}));
    json!({"questions": asked.collect::<Vec<_>>()})
}

/// The idea's first paragraph, and everything from its first item on.
fn document(idea: &str) -> String {
    let said = first_paragraph(idea);
    let lines: Vec<&str> = idea.lines().collect();
    let items = match lines.iter().position(|line| is_item(line)) {
        Some(first) => lines[first..].join("\n"),
        None => format!("- [ ] {}", one_line(&said, PROJECT_CHARS_MAX)),
    };
    format!("## Summary\n\n{said}\n\n## Items\n\n{}\n", items.trim_end())
}

fn is_item(line: &str) -> bool {
    !checklist::items(line).is_empty()
}

/// The first lines that are neither headings nor items.
fn first_paragraph(idea: &str) -> String {
    let is_prose = |line: &&str| !line.is_empty() && !line.starts_with('#') && !is_item(line);
    let lines = idea
        .lines()
        .map(str::trim)
        .skip_while(|line| !is_prose(line));
    let paragraph: Vec<&str> = lines.take_while(is_prose).collect();
    match paragraph.is_empty() {
        // A heading would end the section that it stands in.
        true => {
            let first = idea.trim().lines().next().unwrap_or_default();
            one_line(first.trim_start_matches(['#', ' ']), PROJECT_CHARS_MAX)
        }
        false => paragraph.join("\n"),
    }
}

fn block(item: &Item) -> String {
    let tick = if item.ticked { 'x' } else { ' ' };
    let script = item.script.as_ref();
    let script = script.map(|script| fenced(script.shell, &script.text));
    let check = item.check.as_ref();
    let check = check.map(|check| fenced(checklist::CHECK, check));
    let blocks: String = script.into_iter().chain(check).collect();
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
    let stages: Vec<Value> = (1..)
        .zip(&items)
        .map(|(number, item)| stage(number, item))
        .collect();
    json!({ "format": 1, "project": project, "stage": stages })
}

fn stage(number: usize, item: &Item) -> Value {
    let (name, needs) = name_and_needs(&item.name);
    let alone = Item {
        check: None,
        ..item.clone()
    };
    let mut stage =
        json!({ "id": id(number), "name": name, "prompt": block(&alone), "needs": needs });
    match &item.check {
        Some(check) => {
            stage["validation"] = json!({ "kind": "command", "command": check.trim_end() });
        }
        None => stage["description"] = json!(UNCHECKED),
    }
    stage
}

/// An item's text without the note of what it waits for, and the ids in that note.
fn name_and_needs(text: &str) -> (String, Vec<String>) {
    let note = text.split_once(AFTER);
    let Some((before, (numbers, after))) =
        note.and_then(|(before, note)| Some((before, note.split_once(')')?)))
    else {
        return (text.to_owned(), Vec::new());
    };
    let numbers = numbers
        .split(',')
        .filter_map(|number| number.trim().parse().ok());
    let name = format!("{} {}", before.trim(), after.trim());
    (
        one_line(&name, PROJECT_CHARS_MAX),
        numbers.map(id).collect(),
    )
}

fn id(number: usize) -> String {
    format!("S{number:02}")
}

#[cfg(test)]
mod tests {
    use ekiden_core::prompt::{
        PromptBlocks, architecture_prompt, questions, questions_prompt, split_prompt,
    };
    use ekiden_manifest::{Defaults, Document, Syntax, TextAlone, planned, read as read_manifest};

    use super::*;

    const IDEA: &str = "# Tea\n\nA shop for tea.\nSmall.\n\n- [ ] Brew\n\n  ```sh\n  echo tea > tea.txt\n  ```\n  ```check\n  \
                        test -s tea.txt\n  ```\n- [ ] Drink (after: 1)\n";

    fn document(answer: &str, architecture: Option<&str>) -> Document {
        let text = planned(answer, architecture).unwrap();
        read_manifest(&text, Syntax::Json, &Defaults::default(), &mut TextAlone).unwrap()
    }

    fn read(planner: &mut Planner, prompt: &PromptBlocks) {
        planner.read(&prompt.blocks().map(str::to_owned).collect::<Vec<_>>());
    }

    // shows: REL-26
    #[test]
    fn a_tasks_own_questions_are_asked_back() {
        let mut planner = Planner::new("/p".into());
        read(
            &mut planner,
            &questions_prompt("Sell tea.\nGreen or black?\n"),
        );
        assert!(matches!(planner.next(), Move::End { .. }));
        let asked = questions(&planner.answer().unwrap()).unwrap();
        assert_eq!(asked[0].question, "Green or black?");
        assert_eq!(asked.len(), 1);
    }

    fn written(idea: &str) -> String {
        let mut planner = Planner::new("/p".into());
        read(&mut planner, &architecture_prompt(idea, "architecture.md"));
        let Move::Call {
            tool: Tool::Write { path, content },
            ..
        } = planner.next()
        else {
            panic!()
        };
        assert_eq!(path, PathBuf::from("/p/architecture.md"));
        planner.saw(&Outcome::Written);
        assert!(matches!(planner.next(), Move::End { .. }) && planner.answer().is_none());
        content
    }

    fn split(document: &str) -> String {
        let mut planner = Planner::new("/p".into());
        read(
            &mut planner,
            &split_prompt(document, "architecture.md", 80_000),
        );
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
        let plan = self::document(&split(&document), Some("architecture.md"));
        assert_eq!(plan.project, "A shop for tea. Small.");
        let names: Vec<&str> = plan
            .stages
            .iter()
            .map(|stage| stage.task_name.as_str())
            .collect();
        assert_eq!(names, ["Brew", "Drink"]);
        assert_eq!(plan.stages[1].part.needs[0].stage.as_str(), "S01");
    }

    #[test]
    fn an_idea_without_prose_is_named_by_its_heading() {
        let written = written("# Port\n\n## Items\n\n- [ ] Convert a\n");
        let plan = document(&split(&written), None);
        assert_eq!((&*plan.project, plan.stages.len()), ("Port", 1));
    }

    #[test]
    fn an_idea_without_items_is_one_stage() {
        let plan = document(&split(&written("Port it to Rust")), None);
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
