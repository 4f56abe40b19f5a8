//! Skills: commands that a person or the agent calls inside a session (`/handoff`), as the files that the client
//! reads.
//!
//! `ekiden setup` installs the same texts as the plugin. They only say which program to run and how to use its
//! answer, so a newer program needs no newer skill.
//!
//! Why the agent runs the program, instead of the skill including its output: the client attaches every file that a
//! skill's text names after an at sign, whatever the permissions say, and a handoff is foreign text. The client does
//! not search the result of a call that way.

use super::fill::fill;
use crate::names::names;

pub(super) const CHECKPOINT: &str = include_str!("texts/skill_checkpoint.md");
pub(super) const HANDOFF: &str = include_str!("texts/skill_handoff.md");
pub(super) const ORIENT: &str = include_str!("texts/skill_orient.md");
pub(super) const RALPH: &str = include_str!("texts/skill_ralph.md");
pub(super) const SHARD: &str = include_str!("texts/skill_shard.md");

/// A line in the head of each of our skills, which distinguishes them from other people's.
pub const SKILL_MARK: &str = "  installed-by: ekiden\n";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Skill {
    /// The session's state, estimates, deferral, a checkpoint now.
    Checkpoint,
    /// The session is handed off.
    Handoff,
    /// A fresh session takes over.
    Orient,
    /// An iteration of a loop: its context, its checkpoint.
    Ralph,
    /// A long document is split.
    Shard,
}

/// The names under which the skills are called. They may differ from the skills' own names: somebody may have
/// had a command of that name first, and a plugin's skills are called by its name and theirs
/// (`ekiden:handoff`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkillNames([String; Skill::ALL.len()]);

names!(Skill {
    Checkpoint: "checkpoint",
    Handoff: "handoff",
    Orient: "orient",
    Ralph: "ralph",
    Shard: "shard",
});

impl Skill {
    /// The skill's file. It calls `program`, one shell word, and may do so without asking.
    pub fn text(self, program: &str, names: &SkillNames) -> String {
        let wording = match self {
            Self::Checkpoint => CHECKPOINT,
            Self::Handoff => HANDOFF,
            Self::Orient => ORIENT,
            Self::Ralph => RALPH,
            Self::Shard => SHARD,
        };
        // Running a loop needs the client's permission; looking at one, or recording its state, does not.
        let rules = match self {
            Self::Checkpoint | Self::Handoff | Self::Orient | Self::Shard => {
                vec![self.name().to_owned()]
            }
            Self::Ralph => ["context", "checkpoint", "status"]
                .map(|word| format!("ralph {word}"))
                .into(),
        };
        let rules = rules.iter().map(|rule| format!("Bash({program} {rule}:*)"));
        // A JSON string is a YAML string, whatever it contains.
        let rule = serde_json::Value::from(rules.collect::<Vec<_>>().join(", ")).to_string();
        fill(
            wording,
            &[
                (
                    "name",
                    names.of(self).rsplit(':').next().unwrap_or_default(),
                ),
                ("program", program),
                ("rule", &rule),
                ("handoff", names.of(Self::Handoff)),
                ("orient", names.of(Self::Orient)),
            ],
        )
    }
}

impl SkillNames {
    /// Each skill under the name that `name` gives it.
    pub fn by(name: impl FnMut(Skill) -> String) -> Self {
        Self(Skill::ALL.map(name))
    }

    pub fn of(&self, skill: Skill) -> &str {
        &self.0[skill as usize]
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect_file;

    use super::*;

    fn in_a_plugin(skill: Skill) -> String {
        skill.text(
            "ekiden",
            &SkillNames::by(|skill| format!("ekiden:{}", skill.name())),
        )
    }

    // shows: OPS-03, CHK-12
    #[test]
    fn the_plugin_ships_these_texts() {
        for skill in Skill::ALL {
            let file = format!(
                "{}/../../plugin/skills/{}/SKILL.md",
                env!("CARGO_MANIFEST_DIR"),
                skill.name()
            );
            expect_file![file].assert_eq(&in_a_plugin(skill));
        }
    }

    // shows: OPS-02
    #[test]
    fn a_skill_under_another_name_calls_the_others_by_theirs() {
        let names = SkillNames::by(|skill| format!("ekiden-{}", skill.name()));
        let text = Skill::Handoff.text("'/opt/e k/ekiden'", &names);
        assert!(text.starts_with("---\nname: ekiden-handoff\n"), "{text}");
        assert!(
            text.contains("allowed-tools: \"Bash('/opt/e k/ekiden' handoff:*)\"\n"),
            "{text}"
        );
        assert!(
            text.contains("Run `'/opt/e k/ekiden' handoff` in the shell."),
            "{text}"
        );
        assert!(
            text.contains("that /ekiden-orient in a fresh session"),
            "{text}"
        );
    }

    // shows: SEC-01
    #[test]
    fn no_skill_makes_the_client_attach_a_file_or_run_a_command_unasked() {
        for skill in Skill::ALL {
            let text = in_a_plugin(skill);
            assert!(!text.contains('@') && !text.contains("!`"), "{text}");
            assert!(text.contains(SKILL_MARK), "{text}");
        }
    }
}
