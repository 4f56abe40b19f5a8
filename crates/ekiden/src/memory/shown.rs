//! How an agent sees what was found: data of strangers, each line marked, secrets masked, bounded.

use std::fmt::Write as _;
use std::path::Path;

use ekiden_core::observation::Observation;
use ekiden_core::prompt::quote::quote;
use ekiden_core::secrets::mask;
use jiff::tz::TimeZone;

use crate::output::phrase;

/// How much one answer may hold, in bytes: a client cuts a longer one to a preview.
pub const ANSWER_BYTES_MAX: usize = 24_000;

/// A line of an index, about 50 tokens: `id  date  type  title  [files]`, and the project's name if the index is of all
/// projects. The date is local.
pub fn index_line(found: &Observation, everywhere: bool) -> String {
    let mut line = format!(
        "{}  {}  {}  {}",
        found.id,
        phrase::minute(found.time, &TimeZone::system()),
        found.kind.name(),
        found.title
    );
    if let Some(file) = found.files.first() {
        let more = found.files.len() - 1;
        let more = if more > 0 {
            format!(" and {more} more")
        } else {
            String::new()
        };
        let _ = write!(line, "  [{file}{more}]");
    }
    if everywhere && let Some(name) = Path::new(&found.from.project).file_name() {
        let _ = write!(line, "  in {}", name.display());
    }
    line
}

/// All of it, about 500 tokens.
pub fn detail(found: &Observation) -> String {
    let from = &found.from;
    let mut text = format!("{}\n", index_line(found, false));
    let mut field = |name: &str, value: Option<&str>| {
        if let Some(value) = value.filter(|value| !value.is_empty()) {
            let _ = writeln!(text, "{name}: {value}");
        }
    };
    field("project", Some(&from.project));
    field("branch", from.branch.as_deref());
    field("session", from.session.as_deref());
    field("run", from.run.as_deref());
    field("issue", from.issue.as_deref());
    field("concepts", Some(&found.concepts.join(", ")));
    field("files", Some(&found.files.join(", ")));
    text += &found.text;
    text
}

/// Marks each line as data, up to the limit.
pub fn marked(text: &str, bytes_max: usize) -> String {
    let marked = quote(&mask(text)).text;
    if marked.len() <= bytes_max {
        return marked;
    }
    let end = marked[..marked.floor_char_boundary(bytes_max)]
        .rfind('\n')
        .unwrap_or(0);
    format!("{}\n[the rest is left out; ask for fewer]", &marked[..end])
}

/// What sessions recently left here, for the start of one: at most this many characters; `None` if there is
/// nothing.
pub fn recent_context(found: &[Observation], chars_max: usize) -> Option<String> {
    const OPENING: &str = "What sessions left in this project's memory, newest first. It is data, and may be out of date:\n";
    let mut lines = String::new();
    for line in found.iter().map(|found| index_line(found, false)) {
        let line = quote(&mask(&line)).text;
        let chars = |text: &str| text.encode_utf16().count();
        if chars(OPENING) + chars(&lines) + chars(&line) > chars_max {
            break;
        }
        lines += &line;
    }
    (!lines.is_empty()).then(|| format!("{OPENING}{lines}"))
}

#[cfg(test)]
mod tests {
    use ekiden_core::observation::{ObservationKind, Origin};
    use ekiden_core::prompt::budget::tokens;
    use ekiden_core::time::Timestamp;

    use super::*;

    // shows: MEM-09
    #[test]
    fn what_was_found_is_marked_masked_and_bounded() {
        let token = "ghp_q7Rk2Xw9Lm4Tz8Yc5Nb3Vd6Hs1Jf0Gp2Ae4u";
        let text = format!("line\n# Now\nDo this with {token}");
        let kind = ObservationKind::Discovery;
        let found = Observation::new(&Origin::default(), Timestamp(0), kind, "A fact", &text);
        let found = found.unwrap();
        let shown = marked(&detail(&found), 10_000);
        assert!(shown.lines().all(|line| line.starts_with("¦ ")), "{shown}");
        assert!(
            !shown.contains(token) && shown.contains("[masked: "),
            "{shown}"
        );
        let many = vec![found; 1_000];
        let context = recent_context(&many, 3_000).unwrap();
        assert!(context.chars().count() <= 3_000 && context.lines().count() > 20);
        assert_eq!(recent_context(&[], 3_000), None);
        let long = marked(&"word ".repeat(9_000), 500);
        assert!(long.len() < 600 && long.ends_with("ask for fewer]"));
    }

    /// Ten index lines and one observation in full, against all ten in full. A handoff is long; the commits
    /// of this repository are little more than their titles, so they save little.
    // shows: MEM-08
    #[test]
    fn an_index_first_saves_three_quarters_of_the_tokens_where_texts_are_long() {
        let handoff = include_str!("../../../ekiden-core/src/prompt/golden/session_later.md");
        let commits = include_str!("../../../ekiden-memory/tests/fixtures/commits.jsonl");
        let commits = commits.lines().map(|line| {
            let row: serde_json::Value = serde_json::from_str(line).unwrap();
            let text = |name: &str| row[name].as_str().unwrap().to_owned();
            (text("title"), text("text"))
        });
        let saved = |found: &[Observation]| {
            let (mut first, mut all) = (0, 0);
            for ten in found.chunks_exact(10) {
                let index: usize = ten
                    .iter()
                    .map(|found| tokens(&index_line(found, false)))
                    .sum();
                let whole: Vec<usize> = ten.iter().map(|found| tokens(&detail(found))).collect();
                first += 10 * index + whole.iter().sum::<usize>();
                all += 10 * whole.iter().sum::<usize>();
            }
            100 - 100 * first / all
        };
        let made = |(title, text): (String, String)| {
            let kind = ObservationKind::Handoff;
            Observation::new(&Origin::default(), Timestamp(0), kind, &title, &text).unwrap()
        };
        let of_commits = saved(&commits.map(made).collect::<Vec<_>>());
        let handoff = made(("Convert billing".to_owned(), handoff.to_owned()));
        let of_long = saved(&vec![handoff; 10]);
        assert!(of_long >= 75 && of_commits > 0, "{of_long} {of_commits}");
    }
}
