//! A settings file: which settings it sets, on which line.
//!
//! A key that is no setting is an error: a typing mistake must not look like a choice. So is a value
//! of the wrong form. Each error names file and line.

use std::ops::Range;
use std::path::{Path, PathBuf};

use ekiden_core::hash::sha256_hex;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::agents::{self, AgentRow};
use super::form;
use super::table::{self, Joins, TABLE};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::phrase;

/// The name of a project's or a user's settings file.
pub const FILE_NAME: &str = "config.toml";
/// The largest settings file that is read, in bytes. Larger is a mistake, not settings.
const BYTES_MAX: u64 = 1024 * 1024;
/// The keys of an agent's row.
const AGENT_KEYS: [&str; 2] = ["kind", "command"];

/// What a settings file says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettingsFile {
    /// The file.
    pub path: PathBuf,
    /// The settings that it sets.
    pub values: Vec<FileValue>,
    /// The agents that it describes.
    pub agents: Vec<AgentRow>,
    /// The hash of its bytes.
    pub hash: String,
}

/// A setting in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileValue {
    /// The setting's name.
    pub name: &'static str,
    /// Its value as text.
    pub text: String,
    /// The line that it stands on, from 1.
    pub line: usize,
}

impl SettingsFile {
    /// Reads a settings file; nothing if there is none.
    ///
    /// # Errors
    ///
    /// If the file cannot be read, or says what no settings file can say.
    pub fn read(path: &Path) -> Result<Option<Self>, Failure> {
        let unreadable = |error: std::io::Error| {
            Failure::caused(Exit::Settings, &format!("cannot read {}", phrase::path(path)), &error)
        };
        match std::fs::metadata(path) {
            Ok(meta) if meta.len() > BYTES_MAX => {
                let text = format!("{} is too large for a settings file (over 1 MiB)", phrase::path(path));
                return Err(Failure::new(Exit::Settings, text));
            }
            Ok(_) => {}
            Err(error) if is_absent(&error) => return Ok(None),
            Err(error) => return Err(unreadable(error)),
        }
        let text = std::fs::read_to_string(path).map_err(unreadable)?;
        Self::parse(path, &text).map(Some)
    }

    /// Reads the text of a settings file.
    ///
    /// # Errors
    ///
    /// If it is no TOML, or has a key or value that it cannot have.
    pub fn parse(path: &Path, text: &str) -> Result<Self, Failure> {
        let place = Place { path, text };
        let root = DeTable::parse(text).map_err(|error| {
            let what = error.message().trim().replace('\n', ", ");
            place.failure(error.span().unwrap_or(0..0), &what)
        })?;
        let hash = sha256_hex(text.as_bytes());
        let mut file = Self { path: path.to_owned(), values: Vec::new(), agents: Vec::new(), hash };
        file.take_table(&place, "", root.get_ref())?;
        file.values.sort_by_key(|value| value.line);
        Ok(file)
    }

    fn take_table(&mut self, place: &Place<'_>, prefix: &str, table: &DeTable<'_>) -> Result<(), Failure> {
        for (key, value) in table {
            let name = format!("{prefix}{}", key.get_ref());
            match value.get_ref() {
                DeValue::Table(agents) if name == "agents" => self.take_agents(place, agents)?,
                DeValue::Table(inner) if is_table(&name) => {
                    self.take_table(place, &format!("{name}."), inner)?;
                }
                DeValue::Table(_)
                | DeValue::String(_)
                | DeValue::Integer(_)
                | DeValue::Float(_)
                | DeValue::Boolean(_)
                | DeValue::Datetime(_)
                | DeValue::Array(_) => self.take_value(place, &name, key.span(), value)?,
            }
        }
        Ok(())
    }

    fn take_value(
        &mut self,
        place: &Place<'_>,
        name: &str,
        key: Range<usize>,
        value: &Spanned<DeValue<'_>>,
    ) -> Result<(), Failure> {
        let Some(setting) = table::find(name).filter(|setting| setting.row().in_files) else {
            let known = TABLE.iter().map(|setting| setting.row()).filter(|row| row.in_files);
            return Err(place.unknown(key, name, known.map(|row| row.name)));
        };
        let row = setting.row();
        let text = as_text(value.get_ref(), row.joins).ok_or_else(|| {
            place.failure(value.span(), &format!("`{name}` cannot be {}", value.get_ref().type_str()))
        })?;
        if let Err(wanted) = setting.check(&text) {
            return Err(place.failure(value.span(), &format!("`{name}` must be {wanted}, not `{text}`")));
        }
        self.values.push(FileValue { name: row.name, text, line: place.line(key) });
        Ok(())
    }

    fn take_agents(&mut self, place: &Place<'_>, agents: &DeTable<'_>) -> Result<(), Failure> {
        for (name, value) in agents {
            let DeValue::Table(table) = value.get_ref() else {
                let text = format!("`agents.{0}` must be a table: [agents.{0}]", name.get_ref());
                return Err(place.failure(name.span(), &text));
            };
            let row = agent_row(place, name, table)?;
            self.agents.push(row);
        }
        Ok(())
    }
}

fn agent_row(
    place: &Place<'_>,
    name: &Spanned<std::borrow::Cow<'_, str>>,
    table: &DeTable<'_>,
) -> Result<AgentRow, Failure> {
    let line = place.line(name.span());
    let mut row = AgentRow::new(name.get_ref(), place.path, line);
    for (key, value) in table {
        let text = as_text(value.get_ref(), Joins::Words).unwrap_or_default();
        match key.get_ref().as_ref() {
            "kind" => {
                let kind = agents::kind_named(&text)
                    .ok_or_else(|| place.failure(value.span(), "`kind` must be claude, rehearsal or exec"))?;
                row.kind = Some(kind);
            }
            "command" => {
                let words = form::command(&text)
                    .map_err(|wanted| place.failure(value.span(), &format!("`command` must be {wanted}")))?;
                row.command = Some(words);
            }
            other => return Err(place.unknown(key.span(), other, AGENT_KEYS.into_iter())),
        }
    }
    Ok(row)
}

/// A file while it is read.
struct Place<'a> {
    path: &'a Path,
    text: &'a str,
}

impl Place<'_> {
    fn line(&self, span: Range<usize>) -> usize {
        let end = span.start.min(self.text.len());
        self.text.as_bytes()[..end].iter().filter(|byte| **byte == b'\n').count() + 1
    }

    fn failure(&self, span: Range<usize>, what: &str) -> Failure {
        Failure::new(Exit::Settings, format!("{}:{}: {what}", phrase::path(self.path), self.line(span)))
    }

    fn unknown(&self, span: Range<usize>, name: &str, known: impl Iterator<Item = &'static str>) -> Failure {
        let failure = self.failure(span, &format!("there is no setting `{name}`"));
        match phrase::nearest(name, known) {
            Some(near) => failure.hint(format!("did you mean `{near}`?")),
            None => failure.hint("`ekiden config show` lists all settings"),
        }
    }
}

/// There is no such file. A path through something that is no directory is none either.
fn is_absent(error: &std::io::Error) -> bool {
    matches!(error.kind(), std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory)
}

/// Settings lie in a table of this name.
fn is_table(name: &str) -> bool {
    TABLE
        .iter()
        .any(|setting| setting.row().name.strip_prefix(name).is_some_and(|rest| rest.starts_with('.')))
}

/// A value as the text that a flag would give.
fn as_text(value: &DeValue<'_>, joins: Joins) -> Option<String> {
    match value {
        DeValue::String(text) => Some(text.to_string()),
        DeValue::Integer(number) => Some(number.to_string()),
        DeValue::Float(number) => Some(number.to_string()),
        DeValue::Boolean(value) => Some(value.to_string()),
        DeValue::Datetime(_) | DeValue::Table(_) => None,
        DeValue::Array(items) => {
            let texts: Vec<String> =
                items.iter().map(|item| as_text(item.get_ref(), Joins::No)).collect::<Option<_>>()?;
            match joins {
                Joins::No => None,
                Joins::Lines => Some(texts.join("\n")),
                Joins::Commas => Some(texts.join(",")),
                Joins::Words => shlex::try_join(texts.iter().map(String::as_str)).ok(),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use ekiden_core::settings::AgentKind;

    use super::*;

    fn parse(text: &str) -> Result<SettingsFile, Failure> {
        SettingsFile::parse(Path::new("config.toml"), text)
    }

    fn fails(text: &str) -> String {
        parse(text).unwrap_err().to_string()
    }

    // shows: RUN-03
    #[test]
    fn values_come_with_their_lines() {
        let text = "# mine\nmax_sessions = 3\nlevels = [40, 50, 60]\nallowed_tool = [\"Read\", \"Edit\"]\n\n\
                    [context]\ncap_tokens = 100_000\n\n[agents.mine]\nkind = \"exec\"\ncommand = [\"a\", \"b c\"]\n";
        let file = parse(text).unwrap();
        let values: Vec<_> = file.values.iter().map(|v| (v.name, v.text.as_str(), v.line)).collect();
        let wanted = [
            ("max_sessions", "3", 2),
            ("levels", "40,50,60", 3),
            ("allowed_tool", "Read\nEdit", 4),
            ("context.cap_tokens", "100000", 7),
        ];
        assert_eq!(values, wanted);
        let agent = &file.agents[0];
        assert_eq!((agent.name.as_str(), agent.kind, agent.line), ("mine", Some(AgentKind::Exec), 9));
        assert_eq!(agent.command.as_deref().unwrap(), ["a", "b c"]);
    }

    // shows: RUN-03
    #[test]
    fn an_unknown_key_is_an_error_with_a_suggestion() {
        expect_test::expect![[r"
            error: config.toml:2: there is no setting `max_session`
            hint: did you mean `max_sessions`?"]]
        .assert_eq(&fails("\nmax_session = 3\n"));
        expect_test::expect![[r"
            error: config.toml:1: there is no setting `context.colour`
            hint: `ekiden config show` lists all settings"]]
        .assert_eq(&fails("context.colour = 3"));
        assert!(fails("work_dir = 'x'").contains("no setting `work_dir`"));
        assert!(fails("agents.x.knd = 'exec'").contains("did you mean `kind`?"));
    }

    #[test]
    fn a_bad_value_says_where_and_what_would_be_right() {
        let cases = [
            (
                "max_sessions = 0",
                "config.toml:1: `max_sessions` must be a whole number from 1 to 10000, not `0`",
            ),
            (
                "pause = 2.5",
                "config.toml:1: `pause` must be a whole number from 0 to 3600 (seconds), not `2.5`",
            ),
            ("verify = ['a']", "config.toml:1: `verify` cannot be array"),
            ("agents.x = 3", "config.toml:1: `agents.x` must be a table: [agents.x]"),
            ("agents.x.kind = 'robot'", "config.toml:1: `kind` must be claude, rehearsal or exec"),
        ];
        for (text, wanted) in cases {
            assert_eq!(parse(text).unwrap_err().error(), wanted);
        }
        assert!(fails("a = \n").starts_with("error: config.toml:1: "));
    }

    #[test]
    fn no_file_is_no_settings() {
        assert!(SettingsFile::read(Path::new("/no/such/config.toml")).unwrap().is_none());
    }
}
