//! What the protocol text tells: where to write which files, under which headings, with which words.
//!
//! Everything is read from the text, nothing is known beforehand. WHY: a wording that no longer says
//! what an agent needs then fails the tests that drive this agent, as it would fail a model.

/// The rules of a handoff, as the protocol text gives them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Protocol {
    /// Where the files go, as seen from the work dir.
    pub(super) handoff_dir: String,
    /// The files, in the order of the text.
    pub(super) files: Vec<FileRule>,
    /// How the state of the task is called.
    pub(super) words: StatusWords,
}

/// One file of a handoff.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FileRule {
    /// Its name.
    pub(super) name: String,
    /// The headings in it, in order.
    pub(super) headings: Vec<String>,
    /// It holds the STATUS line.
    pub(super) has_status: bool,
    /// It can be left out when all is done.
    pub(super) optional_when_done: bool,
    /// It is for what is new, and is left out when nothing is.
    pub(super) only_new: bool,
}

/// What may stand behind `STATUS:`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct StatusWords {
    /// Work is left.
    pub(super) in_progress: String,
    /// All is done and checked.
    pub(super) done: String,
    /// A person is needed.
    pub(super) blocked: String,
}

/// The protocol text does not say something that an agent must know.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("hand over: the protocol text does not say {0}")]
pub(crate) struct ProtocolError(&'static str);

const STATUS: &str = "STATUS:";

impl Protocol {
    /// Reads the protocol text.
    pub(super) fn parse(text: &str) -> Result<Self, ProtocolError> {
        let handoff_dir = between(text, "write these files in ", " yourself");
        let files = files(text);
        let status = text.lines().map(str::trim_start).find(|line| line.starts_with(STATUS));
        let words = StatusWords::parse(status.ok_or(ProtocolError("what STATUS may be"))?)?;
        if !files.iter().any(|file| file.has_status) || files.iter().any(|file| file.headings.is_empty()) {
            return Err(ProtocolError("which headings the files have"));
        }
        let handoff_dir = handoff_dir.ok_or(ProtocolError("where the files go"))?.to_owned();
        Ok(Self { handoff_dir, files, words })
    }

    /// The file with the STATUS line.
    pub(super) fn status_file(&self) -> &str {
        self.files.iter().find(|file| file.has_status).map_or("", |file| &file.name)
    }
}

impl StatusWords {
    fn parse(line: &str) -> Result<Self, ProtocolError> {
        let in_progress = line.trim_start_matches(STATUS).split_whitespace().next();
        Ok(Self {
            in_progress: in_progress.ok_or(ProtocolError("the word for work that is left"))?.to_owned(),
            done: explained(line, "done").ok_or(ProtocolError("the word for a task that is done"))?,
            blocked: explained(line, "ask").ok_or(ProtocolError("the word for a task that is stuck"))?,
        })
    }
}

/// The word before the parenthesis that says this.
fn explained(line: &str, what: &str) -> Option<String> {
    let mut parts = line.split('(');
    let mut before = parts.next()?;
    for part in parts {
        let (explanation, after) = part.split_once(')')?;
        if explanation.contains(what) {
            return before.split_whitespace().next_back().map(str::to_owned);
        }
        before = after;
    }
    None
}

/// Files begin at the margin with their name; what is indented below belongs to them.
fn files(text: &str) -> Vec<FileRule> {
    let mut files: Vec<FileRule> = Vec::new();
    for line in text.lines() {
        let indented = line.starts_with(' ');
        if let Some(name) = line.split_whitespace().next().filter(|name| !indented && name.ends_with(".md")) {
            files.push(FileRule {
                name: name.to_owned(),
                headings: Vec::new(),
                has_status: false,
                optional_when_done: line.contains("not needed with"),
                only_new: line.contains("only what is new"),
            });
        } else if let Some(file) = files.last_mut().filter(|_| indented) {
            file.has_status |= line.trim_start().starts_with(STATUS);
            // Two blanks part a heading from its explanation.
            let heading = line.trim_start().strip_prefix("## ").and_then(|rest| rest.split("  ").next());
            file.headings.extend(heading.map(|heading| heading.trim().to_owned()));
        }
    }
    files
}

fn between<'a>(text: &'a str, before: &str, after: &str) -> Option<&'a str> {
    let (_, rest) = text.split_once(before)?;
    Some(rest.split_once(after)?.0)
}

#[cfg(test)]
pub(super) mod tests {
    use ekiden_core::handoff::{HandoffFile, Heading, Marker};
    use ekiden_core::prompt::{Ordering, ProtocolSlots, protocol};

    use super::*;

    /// The text that a run gives its sessions.
    pub(in crate::rehearsal) fn text() -> String {
        let marker = Marker::try_from("ALL_FILES_PROCESSED".to_owned()).unwrap();
        let slots =
            ProtocolSlots { handoff_dir: ".ekiden/handoff", marker: &marker, ordering: Ordering::Message };
        protocol(&slots)
    }

    // shows: AGT-05
    #[test]
    fn the_text_says_all_that_a_handoff_needs() {
        let protocol = Protocol::parse(&text()).unwrap();
        assert_eq!(protocol.handoff_dir, ".ekiden/handoff");
        assert_eq!(protocol.status_file(), HandoffFile::Progress.name());
        let words = [&protocol.words.in_progress, &protocol.words.done, &protocol.words.blocked];
        assert_eq!(words, ["IN_PROGRESS", "ALL_FILES_PROCESSED", "BLOCKED"]);
        for (rule, file) in protocol.files.iter().zip(HandoffFile::ALL) {
            assert_eq!(rule.name, file.name());
            assert_eq!(rule.headings, Heading::of(file).map(Heading::name).collect::<Vec<_>>());
            assert_eq!(rule.optional_when_done, file == HandoffFile::NextPrompt);
            assert_eq!(rule.only_new, file == HandoffFile::Knowledge);
        }
        assert_eq!(protocol.files.len(), 3);
    }

    #[test]
    fn a_text_that_leaves_something_out_is_no_protocol() {
        let text = text();
        for said in [
            "write these files in",
            "STATUS: IN_PROGRESS",
            "all done",
            "ask under",
            "PROGRESS.md\n",
            "    ## ",
        ] {
            assert!(Protocol::parse(&text.replace(said, "")).is_err(), "{said}");
        }
        assert!(Protocol::parse("").is_err());
    }
}
