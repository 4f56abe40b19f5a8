//! A settings file: which settings it sets, on which line.
//!
//! An unknown key is an error: a typo must not look like a choice. So is a value of the wrong form. Each
//! error names file and line.

use std::fs::File;
use std::ops::Range;
use std::path::{Path, PathBuf};

use ekiden_core::budget::Budget;
use ekiden_core::hash::sha256_hex;
use ekiden_core::text::one_line;
use ekiden_store::archive::ensure_dir;
use ekiden_store::beneath;
use ekiden_store::disk::{Disk as _, RealDisk, parent};
use ekiden_store::replace::{Durability, replace, replace_foreign};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::agents::{self, AgentRow};
use super::form;
use super::table::{self, Row, TABLE, Takes};
use crate::exit::Exit;
use crate::failure::{Failure, OrFail as _};
use crate::output::phrase;

/// The name of a project's or a user's settings file.
pub const FILE_NAME: &str = "config.toml";
/// The largest settings file that is read, in bytes. A larger one is a mistake.
const BYTES_MAX: u64 = 1024 * 1024;
/// What is said about a fault, in characters.
const FAULT_CHARS_MAX: usize = 1000;

#[derive(Debug, Clone)]
pub struct SettingsFile {
    pub path: PathBuf,
    pub values: Vec<FileValue>,
    pub agents: Vec<AgentRow>,
    /// The hash of its bytes.
    pub hash: String,
}

#[derive(Debug, Clone)]
pub struct FileValue {
    pub name: &'static str,
    pub text: String,
    /// From 1.
    pub line: usize,
}

pub fn settings_file(project: &Path) -> PathBuf {
    project.join(".ekiden").join(FILE_NAME)
}

/// The project of a settings file. Not the location of the file itself: a link to another project's
/// approved file would run its commands here, where they may mean something else.
pub fn project_of(file: &Path) -> PathBuf {
    let project = file.ancestors().nth(2);
    let project = project.filter(|project| !project.as_os_str().is_empty());
    project.unwrap_or(Path::new(".")).to_owned()
}

impl SettingsFile {
    /// Reads a settings file; `None` if there is none.
    pub fn read(path: &Path) -> Result<Option<Self>, Failure> {
        let what = || format!("cannot use {} as settings", phrase::path(path));
        let bytes = match RealDisk::new().read(path, BYTES_MAX) {
            Err(error) if error.is_absent() => return Ok(None),
            read => read.or_fail(Exit::Settings, what()).map_err(|failure| {
                failure.hint("it must be a file that you may read; none is needed")
            })?,
        };
        let text = String::from_utf8(bytes).map_err(|_| {
            Failure::new(Exit::Settings, format!("{}: it is not UTF-8 text", what()))
                .hint("save it as UTF-8; `file` with its path shows what it is")
        })?;
        Self::parse(path, &text).map(Some)
    }

    /// Reads the settings file of a project. It may be a link, but not one that leads out of the project: a
    /// message about a fault would show a line of any file.
    pub fn of_project(path: &Path) -> Result<Option<Self>, Failure> {
        let dir = project_of(path);
        let name = path.strip_prefix(&dir).unwrap_or(path);
        match beneath::open_file(&dir, name) {
            Err(refused) if refused.is_refused() && path.exists() => {
                let text = format!(
                    "cannot use {} as settings: it {refused}",
                    phrase::path(path)
                );
                Err(Failure::new(Exit::Settings, text)
                    .hint("put the settings into the file itself, or into your own config.toml"))
            }
            Ok(_) | Err(_) => Self::read(path),
        }
    }

    pub fn parse(path: &Path, text: &str) -> Result<Self, Failure> {
        let file = Self {
            path: path.to_owned(),
            values: Vec::new(),
            agents: Vec::new(),
            hash: sha256_hex(text.as_bytes()),
        };
        let mut parser = Parser { text, file };
        let root = DeTable::parse(text).map_err(|error| {
            let what = error.message().trim().replace('\n', ", ");
            parser.failure(error.span().unwrap_or(0..0), &what)
        })?;
        parser.settings("", root.get_ref())?;
        parser.file.values.sort_by_key(|value| value.line);
        Ok(parser.file)
    }
}

/// Writes a setting to the settings file of a project, durably, and to no other place that a link leads to. Returns the
/// hashes of its bytes before and after.
pub fn set_in_project(file: &Path, row: &Row, value: &str) -> Result<[String; 2], Failure> {
    // A file with a mistake is not made worse.
    SettingsFile::of_project(file)?;
    let disk = RealDisk::fenced(&project_of(file));
    set_on(&disk, file, row, value)
}

/// Writes a setting to a settings file, durably, and creates the file if there is none.
///
/// The rest of the file stays the same byte for byte.
pub fn set(file: &Path, row: &Row, value: &str) -> Result<(), Failure> {
    set_on(&RealDisk::new(), file, row, value).map(drop)
}

fn set_on(disk: &RealDisk, file: &Path, row: &Row, value: &str) -> Result<[String; 2], Failure> {
    ensure_dir(disk, parent(file))?;
    // Two of these at once would lose a setting. Not every network file system locks a directory.
    let dir = File::open(parent(file));
    let _ = dir.as_ref().map(File::lock);
    let is_there = disk.stat(file)?.is_some();
    let before = match is_there {
        true => disk.read(&disk.resolve(file)?, BYTES_MAX)?,
        false => Vec::new(),
    };
    refuse_read_only(file)?;
    let Some(after) = with(&String::from_utf8_lossy(&before), row, value) else {
        let what = format!("cannot put `{}` into {}", row.name, phrase::path(file));
        let hint = format!(
            "nothing was changed; write `{} = {value}` yourself",
            row.name
        );
        return Err(Failure::new(Exit::Settings, what).hint(hint));
    };
    if is_there {
        replace_foreign(disk, file, after.as_bytes())?;
    } else {
        replace(disk, file, after.as_bytes(), Durability::Full)?;
    }
    Ok([before.as_slice(), after.as_bytes()].map(sha256_hex))
}

/// A read-only file could still be replaced, but a person who made it read-only does not want that.
pub fn refuse_read_only(file: &Path) -> Result<(), Failure> {
    match std::fs::metadata(file) {
        Ok(found) if found.permissions().readonly() => {
            let text = format!("cannot change `{}`: it is read-only", file.display());
            Err(Failure::new(Exit::NotPermitted, text)
                .hint("nothing was changed; `chmod u+w` makes it writable"))
        }
        Ok(_) | Err(_) => Ok(()),
    }
}

/// The text with this setting: in place of its value, in the innermost table that exists there, or above
/// everything. `None` if none of that gives TOML.
fn with(text: &str, row: &Row, value: &str) -> Option<String> {
    let keys: Vec<&str> = row.name.split('.').collect();
    let root = DeTable::parse(text).ok()?.into_inner();
    let put = |place: Range<usize>, new: String| {
        let (before, after) = (&text[..place.start], &text[place.end..]);
        format!("{before}{new}{after}")
    };
    let end_of_line = if text.contains("\r\n") { "\r\n" } else { "\n" };
    let mut texts = match value_of(&root, &keys) {
        Some(old) => vec![put(old.span(), value.to_owned())],
        None => Vec::new(),
    };
    for depth in (1..keys.len()).rev() {
        let (table, key) = (&keys[..depth], keys[depth..].join("."));
        let inline = value_of(&root, table).map(|table| table.span().start);
        if let Some(start) = inline.filter(|start| text[*start..].starts_with('{')) {
            let is_empty = text[start + 1..].trim_start().starts_with('}');
            let end = if is_empty { " " } else { "," };
            texts.push(put(start + 1..start + 1, format!(" {key} = {value}{end}")));
        }
        let heads = ends_of_heads(text, table);
        texts.extend(heads.map(|end| put(end..end, format!("{end_of_line}{key} = {value}"))));
    }
    // Some editors begin a file with a mark, which stays the first.
    let begin = text.len() - text.trim_start_matches('\u{feff}').len();
    texts.push(put(
        begin..begin,
        format!("{} = {value}{end_of_line}", row.name),
    ));
    // A text of several lines may contain what looks like a head.
    let is_set = |text: &String| {
        DeTable::parse(text).is_ok_and(|root| value_of(root.get_ref(), &keys).is_some())
    };
    texts.into_iter().find(is_set)
}

/// The ends of the lines that look like the head of this table.
fn ends_of_heads(text: &str, table: &[&str]) -> impl Iterator<Item = usize> {
    let mut start = 0;
    text.split_inclusive('\n').filter_map(move |line| {
        let end = start + line.trim_end().len();
        start += line.len();
        let root = DeTable::parse(line).ok()?.into_inner();
        let inner = value_of(&root, table)?.get_ref().as_table()?;
        (line.trim_start().starts_with('[') && inner.is_empty()).then_some(end)
    })
}

fn value_of<'t, 'v>(table: &'t DeTable<'v>, keys: &[&str]) -> Option<&'t Spanned<DeValue<'v>>> {
    let (key, inner) = keys.split_first()?;
    let mut entries = table.iter();
    let (_, value) = entries.find(|(name, _)| name.get_ref() == key)?;
    match inner {
        [] => Some(value),
        [_, ..] => value_of(value.get_ref().as_table()?, inner),
    }
}

struct Parser<'a> {
    text: &'a str,
    file: SettingsFile,
}

impl Parser<'_> {
    fn settings(&mut self, prefix: &str, table: &DeTable<'_>) -> Result<(), Failure> {
        for (key, value) in table {
            let name = format!("{prefix}{}", key.get_ref());
            match value.get_ref().as_table() {
                Some(agents) if name == "agents" => self.agents(agents)?,
                Some(inner) if is_table(&name) => self.settings(&format!("{name}."), inner)?,
                Some(_) | None => self.setting(&name, key.span(), value)?,
            }
        }
        Ok(())
    }

    fn setting(
        &mut self,
        name: &str,
        key: Range<usize>,
        value: &Spanned<DeValue<'_>>,
    ) -> Result<(), Failure> {
        let Some(row) = table::find(name).filter(|row| row.in_files) else {
            let meant = table::meant(name).filter(|row| row.in_files);
            return Err(self.unknown(key, name, meant.map(|row| row.name)));
        };
        let wrong = |what: String| self.failure(value.span(), &format!("`{name}` {what}"));
        let text = text_of(value.get_ref(), row.takes).ok_or_else(|| {
            let kind = match value.get_ref().as_str() {
                Some(_) => "NUL character",
                None => value.get_ref().type_str(),
            };
            wrong(format!("takes no {kind}"))
        })?;
        (row.check)(&text).map_err(|wanted| wrong(format!("must be {wanted}, not `{text}`")))?;
        self.file.values.push(FileValue {
            name: row.name,
            text,
            line: self.line(key),
        });
        Ok(())
    }

    fn agents(&mut self, agents: &DeTable<'_>) -> Result<(), Failure> {
        for (name, value) in agents {
            let Some(table) = value.get_ref().as_table() else {
                let what = format!("`agents.{0}` must be a table: [agents.{0}]", name.get_ref());
                return Err(self.failure(name.span(), &what));
            };
            let mut row = AgentRow {
                name: name.get_ref().to_string(),
                kind: None,
                command: None,
                account: None,
                budget: Budget::default(),
                path: self.file.path.clone(),
                line: self.line(name.span()),
            };
            for (key, value) in table {
                let key_name = key.get_ref().as_ref();
                let text = text_of(value.get_ref(), Takes::Words("")).unwrap_or_default();
                let read = match key_name {
                    "kind" => agents::kind(&text).map(|kind| row.kind = Some(kind)),
                    "command" => form::command(&text).map(|words| row.command = Some(words)),
                    "account" => form::user_path(&text).map(|dir| row.account = Some(dir)),
                    "budget" => form::dollars(&text).map(|usd| row.budget.micro_usd = Some(usd)),
                    "tokens" => form::tokens(&text).map(|tokens| row.budget.tokens = Some(tokens)),
                    other => {
                        let known = ["kind", "command", "account", "budget", "tokens"].into_iter();
                        let meant = phrase::nearest(other, known);
                        return Err(self.unknown(key.span(), other, meant));
                    }
                };
                read.map_err(|wanted| {
                    self.failure(value.span(), &format!("`{key_name}` must be {wanted}"))
                })?;
            }
            self.file.agents.push(row);
        }
        Ok(())
    }

    fn line(&self, span: Range<usize>) -> usize {
        let ends = self.text.bytes().take(span.start);
        ends.filter(|byte| *byte == b'\n').count() + 1
    }

    fn failure(&self, span: Range<usize>, what: &str) -> Failure {
        let place = format!("{}:{}", phrase::path(&self.file.path), self.line(span));
        // A line of a stranger's file must not look like one of ours.
        let what = one_line(what, FAULT_CHARS_MAX);
        Failure::new(Exit::Settings, format!("{place}: {what}"))
    }

    fn unknown(&self, span: Range<usize>, name: &str, meant: Option<&str>) -> Failure {
        let failure = self.failure(span, &format!("there is no setting `{name}`"));
        // `config show` reads this file, too.
        let all = "take it out, or use the version of ekiden that knows it; `ekiden config show` lists all settings";
        failure.hint(hint_of_unknown(name, meant).unwrap_or_else(|| all.to_owned()))
    }
}

/// What was probably meant by a name that a file cannot set.
pub fn hint_of_unknown(name: &str, meant: Option<&str>) -> Option<String> {
    let typed = table::find(name).and_then(|row| Some((row.long()?, row.env())));
    match (typed, meant) {
        (Some((flag, variable)), _) => Some(format!(
            "it is a flag and a variable: `--{flag}`, {variable}"
        )),
        (None, Some(meant)) => Some(format!("did you mean `{meant}`?")),
        (None, None) => None,
    }
}

/// Whether a table of this name may have settings. An empty table of another name is a mistake as well.
fn is_table(name: &str) -> bool {
    let rest = |known: &'static str| known.strip_prefix(name);
    let mut rests = TABLE.iter().filter_map(|row| rest(row.name));
    rests.any(|rest| rest.starts_with('.'))
}

/// A value as the text that a flag would give. No flag, variable, path or argument can have a NUL character.
fn text_of(value: &DeValue<'_>, takes: Takes) -> Option<String> {
    match value {
        DeValue::String(text) => Some(text.to_string()).filter(|text| !text.contains('\0')),
        DeValue::Integer(number) => Some(number.to_string()),
        DeValue::Float(number) => Some(number.to_string()),
        DeValue::Boolean(value) => Some(value.to_string()),
        DeValue::Datetime(_) | DeValue::Table(_) => None,
        DeValue::Array(items) => {
            let text = |item: &Spanned<DeValue<'_>>| text_of(item.get_ref(), Takes::Switch);
            let texts: Vec<String> = items.iter().map(text).collect::<Option<_>>()?;
            match takes {
                Takes::Switch | Takes::One(_) | Takes::Maybe(_) => None,
                Takes::Lines(_) => Some(texts.join("\n")),
                Takes::Commas(_) => Some(texts.join(",")),
                Takes::Words(_) => shlex::try_join(texts.iter().map(String::as_str)).ok(),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use ekiden_core::agent::AgentKind;

    use super::*;

    fn parse(text: &str) -> Result<SettingsFile, Failure> {
        SettingsFile::parse(Path::new("config.toml"), text)
    }

    fn fails(text: &str) -> String {
        parse(text).unwrap_err().to_string()
    }

    // shows: SEC-04
    #[test]
    fn no_change_of_settings_makes_the_reader_panic() {
        let text = "# mine\nmax_sessions = 3\nlevels = [40, 50, 60]\nallowed_tool = [\"Read\"]\nquiet_hours = \"01:00-02:00\"\n\n\
                    [context]\ncap_tokens = 100_000\n\n[agents.mine]\nkind = \"exec\"\ncommand = [\"a\", \"b c\"]\n";
        ekiden_testkit::fuzz::fuzz("the reader of settings", &[text.into()], |bytes| {
            let _ = parse(&String::from_utf8_lossy(bytes));
        });
    }

    // shows: RUN-03
    #[test]
    fn values_come_with_their_lines() {
        let text = "# mine\nmax_sessions = 3\nlevels = [40, 50, 60]\nallowed_tool = [\"Read\", \"Edit\"]\n\n\
                    [context]\ncap_tokens = 100_000\n\n[agents.mine]\nkind = \"exec\"\ncommand = [\"a\", \"b c\"]\n";
        let file = parse(text).unwrap();
        let values: Vec<_> = file
            .values
            .iter()
            .map(|v| (v.name, v.text.as_str(), v.line))
            .collect();
        let wanted = [
            ("max_sessions", "3", 2),
            ("levels", "40,50,60", 3),
            ("allowed_tool", "Read\nEdit", 4),
            ("context.cap_tokens", "100000", 7),
        ];
        assert_eq!(values, wanted);
        let agent = &file.agents[0];
        assert_eq!(
            (agent.name.as_str(), agent.kind, agent.line),
            ("mine", Some(AgentKind::Exec), 9)
        );
        assert_eq!(agent.command.as_deref().unwrap(), ["a", "b c"]);
    }

    // shows: RUN-21
    #[test]
    fn settings_that_are_set_at_once_are_all_there() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("ekiden/config.toml");
        let names = ["max_sessions", "max_turns", "stall_sessions", "plan.jobs"];
        for round in 1..20 {
            std::thread::scope(|scope| {
                for name in names {
                    let set = || set(&file, table::find(name).unwrap(), &round.to_string());
                    scope.spawn(move || set().unwrap());
                }
            });
            let read = SettingsFile::read(&file).unwrap().unwrap();
            let values = read.values.iter();
            let renewed = values.filter(|value| value.text == round.to_string());
            assert_eq!(renewed.count(), names.len());
        }
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
            hint: take it out, or use the version of ekiden that knows it; `ekiden config show` lists all settings"]]
        .assert_eq(&fails("context.colour = 3"));
        assert!(fails("work_dir = 'x'").contains("no setting `work_dir`"));
        assert!(fails("agents.x.knd = 'exec'").contains("did you mean `kind`?"));
    }

    // shows: RUN-03
    #[test]
    fn an_empty_table_that_is_no_table_of_settings_is_an_error() {
        expect_test::expect![[r"
            error: config.toml:2: there is no setting `levles`
            hint: did you mean `levels`?"]]
        .assert_eq(&fails("\n[levles]\n"));
        let inner = fails("[context.colour]\n");
        assert!(inner.contains("no setting `context.colour`"), "{inner}");
        let verify = parse("verify = {}").unwrap_err();
        assert_eq!(verify.error(), "config.toml:1: `verify` takes no table");
        assert_eq!(verify.exit(), Exit::Settings);
        assert!(parse("[context]\n[agents]\n").unwrap().values.is_empty());
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
            ("verify = ['a']", "config.toml:1: `verify` takes no array"),
            (
                "model = \"a\\u0000b\"",
                "config.toml:1: `model` takes no NUL character",
            ),
            (
                "agents.x.account = \"/a\\u0000b\"",
                "config.toml:1: `account` must be an absolute path such as /home/me/work or ~/work",
            ),
            (
                "agents.x = 3",
                "config.toml:1: `agents.x` must be a table: [agents.x]",
            ),
            (
                "agents.x.kind = 'robot'",
                "config.toml:1: `kind` must be claude, rehearsal, acp, codex or exec",
            ),
        ];
        for (text, wanted) in cases {
            assert_eq!(parse(text).unwrap_err().error(), wanted);
        }
        for forged in [
            "\"x\\nhint: run this\" = 1",
            "max_sessions = \"x\\nhint: run this\"",
        ] {
            let told = fails(forged);
            assert!(told.contains("hint: run this"), "{told}");
            assert!(!told.contains("\nhint: run this"), "{told}");
        }
        assert!(fails("a = \n").starts_with("error: config.toml:1: "));
    }

    #[test]
    fn no_file_is_no_settings() {
        assert!(
            SettingsFile::read(Path::new("/no/such/config.toml"))
                .unwrap()
                .is_none()
        );
    }

    // shows: AGT-13
    #[test]
    fn a_choice_stands_above_what_the_file_says() {
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join(".config/ekiden/config.toml");
        let cap = table::find("context.cap_tokens").unwrap();
        set(&file, cap, "9").unwrap();
        let mode = &table::PERMISSION_MODE.row;
        set(&file, mode, "\"acceptEdits\"").unwrap();
        let text = std::fs::read_to_string(&file).unwrap();
        assert_eq!(
            text,
            "permission_mode = \"acceptEdits\"\ncontext.cap_tokens = 9\n"
        );
    }

    // shows: RUN-03
    #[test]
    fn a_setting_is_set_where_it_stands() {
        let set = |text: &str, name: &str, value: &str| {
            let after = with(text, table::find(name).unwrap(), value).unwrap();
            parse(&after).unwrap();
            after
        };
        let cap = "context.cap_tokens";
        assert_eq!(set("", "pause", "3"), "pause = 3\n");
        assert_eq!(
            set("\u{feff}max_sessions = 5\r\n", "pause", "3"),
            "\u{feff}pause = 3\r\nmax_sessions = 5\r\n"
        );
        assert_eq!(
            set("[context]\r\n", cap, "9"),
            "[context]\r\ncap_tokens = 9\r\n"
        );
        assert_eq!(
            set("# mine\npause = 2 # s\n", "pause", "3"),
            "# mine\npause = 3 # s\n"
        );
        assert_eq!(set("[context]\n", cap, "9"), "[context]\ncap_tokens = 9\n");
        assert_eq!(
            set("[context] \ncap_tokens=1", cap, "9"),
            "[context] \ncap_tokens=9"
        );
        assert_eq!(
            set("[agents]\n", cap, "9"),
            "context.cap_tokens = 9\n[agents]\n"
        );
        let repo = "tracker.github.repo";
        let webhook = "notify.webhook";
        for (text, name, after) in [
            ("", repo, "tracker.github.repo = 9\n"),
            (
                "tracker.github.repo = 1\n",
                repo,
                "tracker.github.repo = 9\n",
            ),
            (
                "[tracker.github]\nrepo = 1\n",
                repo,
                "[tracker.github]\nrepo = 9\n",
            ),
            ("[tracker.github]\n", repo, "[tracker.github]\nrepo = 9\n"),
            (
                "[tracker]\nkind = 'x'\n",
                repo,
                "[tracker]\ngithub.repo = 9\nkind = 'x'\n",
            ),
            (
                "[tracker.linear]\n[tracker]\n",
                repo,
                "[tracker.linear]\n[tracker]\ngithub.repo = 9\n",
            ),
            (
                "[tracker.linear]\n",
                repo,
                "tracker.github.repo = 9\n[tracker.linear]\n",
            ),
            (
                "tracker = { github = {} }",
                repo,
                "tracker = { github = { repo = 9 } }",
            ),
            (
                "[notify] # mine\n",
                webhook,
                "[notify] # mine\nwebhook = 9\n",
            ),
            ("[ \"notify\" ]\n", webhook, "[ \"notify\" ]\nwebhook = 9\n"),
            (
                "notify = { ntfy = 'x' }\n",
                webhook,
                "notify = { webhook = 9, ntfy = 'x' }\n",
            ),
            (
                "a = '''\n[notify]\n'''\n",
                webhook,
                "notify.webhook = 9\na = '''\n[notify]\n'''\n",
            ),
        ] {
            let set = with(text, table::find(name).unwrap(), "9");
            assert_eq!(set.as_deref(), Some(after));
        }
        assert_eq!(
            set("levels = [\n1,\n2,3]\n", "levels", "\"4,5,6\""),
            "levels = \"4,5,6\"\n"
        );
    }
}
