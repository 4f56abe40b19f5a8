//! Rules that keep every session from writing its handoff. The client's deny and ask rules override every
//! permission that ekiden gives.
//!
//! `Write` and `*` take the tool away. Of the rules with a path, the client checks only `Edit(..)` when it
//! writes a file, and ignores `Write(..)` (measured with 2.1.197 and newer). It writes no file that it may not
//! read, but writes one that it would ask about before reading it (measured with 2.1.329).

use std::path::{Path, PathBuf};

use ekiden_core::handoff::HandoffFile;
use ekiden_core::relay::HANDOFF_DIR;
use ignore::gitignore::GitignoreBuilder;

/// Flags of the client with rules in its command line.
const FLAGS: [&str; 2] = ["--disallowedTools", "--disallowed-tools"];
/// The client's flag that lists all tools a session has.
const TOOLS: &str = "--tools";
/// The files without which there is no handoff.
const NEEDED: [HandoffFile; 2] = [HandoffFile::Progress, HandoffFile::NextPrompt];

/// The directories that a rule's paths start from.
pub struct Roots<'a> {
    /// The work dir, where the client runs.
    pub dir: &'a Path,
    pub home: Option<PathBuf>,
    /// What `/` means, if it can mean something in the work dir.
    pub slash: Option<&'a Path>,
}

impl Roots<'_> {
    /// Whether a rule denies a session its handoff.
    pub fn deny(&self, rule: &str) -> bool {
        self.ask(rule) || self.apply(rule, "Read", "Read")
    }

    /// Whether the client asks a person before it writes a handoff, by this rule.
    pub fn ask(&self, rule: &str) -> bool {
        self.apply(rule, "Write", "Edit")
    }

    fn apply(&self, rule: &str, bare: &str, with_path: &str) -> bool {
        match rule.strip_suffix(')').and_then(|rule| rule.split_once('(')) {
            None => rule == bare || rule == "*",
            Some((tool, "*")) => tool == bare,
            Some((tool, pattern)) => tool == with_path && self.meet(pattern),
        }
    }

    fn meet(&self, pattern: &str) -> bool {
        let (root, pattern) = match pattern {
            _ if pattern.starts_with("//") => (Some(Path::new("/")), &pattern[1..]),
            _ if pattern.starts_with("~/") => (self.home.as_deref(), &pattern[1..]),
            _ if pattern.starts_with('/') => (self.slash, pattern),
            _ => (
                Some(self.dir),
                pattern.strip_prefix("./").unwrap_or(pattern),
            ),
        };
        let handoff = self.dir.join(HANDOFF_DIR);
        let Some((root, dir)) =
            root.and_then(|root| Some((root, handoff.strip_prefix(root).ok()?)))
        else {
            return false;
        };
        if pattern.trim_matches(['/', '.']).is_empty() {
            return false;
        }
        let mut builder = GitignoreBuilder::new(root);
        let built = builder.case_insensitive(true);
        let built = built.and_then(|built| built.add_line(None, pattern)?.build());
        built.is_ok_and(|rules| {
            NEEDED.iter().any(|file| {
                let file = dir.join(file.name());
                rules.matched_path_or_any_parents(file, false).is_ignore()
            })
        })
    }
}

/// The rule in an agent's command that denies its sessions their handoffs.
pub fn in_command(command: &[String], roots: &Roots<'_>) -> Option<String> {
    let mut rules = values_of(&FLAGS, command).into_iter().flat_map(rules);
    // Here a rule for all of `Read` only takes that tool away (measured with 2.1.329).
    rules.find(|rule| roots.deny(rule) && !matches!(rule.as_str(), "Read" | "Read(*)"))
}

/// The tools that an agent's command allows a session, if the tool for writing is not among them. `default`
/// means all tools if it is alone, and nothing beside others (measured with 2.1.197 and 2.1.329).
pub fn tools_without_write(command: &[String]) -> Option<String> {
    let values = values_of(&[TOOLS], command);
    let has_write = values
        .iter()
        .flat_map(|list| rules(list))
        .any(|tool| tool == "Write");
    let lacks = !values.is_empty() && values != ["default"] && !has_write;
    lacks.then(|| format!("{TOOLS} '{}'", values.join(" ")))
}

/// All values of these flags; each may have several.
fn values_of<'a>(flags: &[&str], command: &'a [String]) -> Vec<&'a str> {
    let mut values = Vec::new();
    let mut listed = false;
    for word in command {
        let (flag, value) = match word.split_once('=') {
            Some((flag, value)) => (flag, Some(value)),
            None => (word.as_str(), None),
        };
        if word.starts_with('-') {
            let is_meant = flags.contains(&flag);
            listed = is_meant && value.is_none();
            values.extend(value.filter(|_| is_meant));
        } else if listed {
            values.push(word);
        }
    }
    values
}

/// The rules of a list, with commas or spaces between them.
fn rules(list: &str) -> Vec<String> {
    let (mut rules, mut depth) = (vec![String::new()], 0_u32);
    for letter in list.chars() {
        match letter {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            ',' | ' ' if depth == 0 => {
                rules.push(String::new());
                continue;
            }
            _ => {}
        }
        if let Some(rule) = rules.last_mut() {
            rule.push(letter);
        }
    }
    rules
}

#[cfg(test)]
mod tests {
    use super::*;

    fn roots(slash: Option<&'static str>) -> Roots<'static> {
        Roots {
            dir: Path::new("/home/me/work"),
            home: Some(PathBuf::from("/home/me")),
            slash: slash.map(Path::new),
        }
    }

    /// What the real client does with these rules was tried, the newer and the older one.
    // shows: AGT-13
    #[test]
    fn rules_deny_handoffs_as_they_do_to_the_client() {
        let roots_of_project = roots(Some("/home/me/work"));
        for rule in [
            "Write",
            "Write(*)",
            "*",
            "Edit(**)",
            "Edit(.ekiden/**)",
            "Edit(./.ekiden/**)",
            "Edit(.ekiden)",
            "Edit(.ekiden/*)",
            "Edit(*.md)",
            "Edit(HANDOFF)",
            "Edit(**/PROGRESS.md)",
            "Edit(.ekiden/handoff/PROGRESS.md)",
            "Edit(//home/me/work/.ekiden/**)",
            "Edit(//home/**)",
            "Edit(/.ekiden/**)",
            "Edit(~/work/**)",
        ] {
            assert!(roots_of_project.deny(rule), "{rule}");
            assert!(roots_of_project.ask(rule), "{rule}");
        }
        for rule in [
            "Read",
            "Read(*)",
            "Read(**)",
            "Read(./.ekiden/**)",
            "Read(*.md)",
        ] {
            assert!(roots_of_project.deny(rule), "{rule}");
            assert!(!roots_of_project.ask(rule), "{rule}");
        }
        for rule in [
            "Edit",
            "Edit(*)",
            "Edit(src/**)",
            "Edit(/)",
            "Edit(//)",
            "Edit(.)",
            "Edit(./)",
            "Edit(~/other/**)",
            "Edit(/home/me/work/.ekiden/**)",
            "Edit(KNOWLEDGE.md)",
            "Write()",
            "Write(**)",
            "Write(.ekiden/**)",
            "Bash(rm:*)",
            "Read()",
            "Read(src/**)",
            "Read(KNOWLEDGE.md)",
        ] {
            assert!(!roots_of_project.deny(rule), "{rule}");
        }
        assert!(!roots(None).deny("Edit(/.ekiden/**)"));
    }

    // shows: AGT-13
    #[test]
    fn a_list_of_tools_without_the_one_that_writes_is_found() {
        let found = |words: &[&str]| {
            let words: Vec<String> = words.iter().map(|&word| word.to_owned()).collect();
            tools_without_write(&words)
        };
        let listed = |list: &str| Some(format!("--tools '{list}'"));
        assert_eq!(
            found(&["claude", "--tools", "Bash,Edit"]),
            listed("Bash,Edit")
        );
        assert_eq!(found(&["claude", "--tools=Bash", "-p"]), listed("Bash"));
        assert_eq!(found(&["claude", "--tools", ""]), listed(""));
        let beside = ["claude", "--tools", "Bash", "default"];
        assert_eq!(found(&beside), listed("Bash default"));
        for words in [
            &["claude"][..],
            &["claude", "--tools", "default"],
            &["claude", "--tools", "Bash", "Write", "-p"],
            &["claude", "--tools=Bash", "--tools=Write"],
            &["claude", "--tools-not", "Bash"],
        ] {
            assert_eq!(found(words), None, "{words:?}");
        }
    }

    // shows: AGT-13
    #[test]
    fn rules_in_the_agents_command_count() {
        let found = |words: &[&str]| {
            let words: Vec<String> = words.iter().map(|&word| word.to_owned()).collect();
            in_command(&words, &roots(Some("/home/me/work")))
        };
        let write = Some("Write".to_owned());
        assert_eq!(found(&["claude", "--disallowedTools", "Bash,Write"]), write);
        assert_eq!(found(&["claude", "--disallowed-tools=Bash Write"]), write);
        assert_eq!(
            found(&["claude", "--disallowedTools", "Bash(a, b)", "Write", "-p"]),
            write
        );
        assert_eq!(
            found(&["claude", "--disallowedTools", "Bash(Write, x)"]),
            None
        );
        assert_eq!(found(&["claude", "--allowedTools", "Write"]), None);
        let reads = ["claude", "--disallowedTools", "Read,Read(*)"];
        assert_eq!(found(&reads), None, "only the tool is gone");
        let reads = ["claude", "--disallowedTools", "Read(**)"];
        assert_eq!(found(&reads).as_deref(), Some("Read(**)"));
        assert_eq!(
            found(&["claude", "--disallowedTools", "Bash", "--x", "Write"]),
            None
        );
    }
}
