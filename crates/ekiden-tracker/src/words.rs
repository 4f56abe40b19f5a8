//! The text that goes into an issue: ours, with agents' text quoted, bounded, masked and defused.

use ekiden_core::issue::Comment;
use ekiden_core::secrets::mask;
use ekiden_core::text::{clean, one_line, short};
use ekiden_core::time::Timestamp;
use serde::{Deserialize, Serialize};

/// The longest line of an agent, in characters.
const LINE_CHARS_MAX: usize = 240;
/// The most lines of an agent under one heading.
const LINES_MAX: usize = 12;
/// The longest document shown in the comment, in lines and characters.
const DOCUMENT_LINES_MAX: usize = 200;
const DOCUMENT_CHARS_MAX: usize = 12_000;
/// The longest comment, in bytes: GitHub accepts 65,536 characters.
const COMMENT_BYTES_MAX: usize = 60_000;
/// The longest body of a pull request, in characters.
const BODY_CHARS_MAX: usize = 60_000;
/// The first lines of living comments: of runs, of watched sessions, and of an issue whose shards have
/// separate runs.
pub const HEADS: [&str; 3] = [
    "ekiden works on this, run ",
    "ekiden watches a session, ",
    "ekiden works on parts of this: ",
];
/// Invisible; inserted where a tracker would see a mention, a reference or an address.
const BREAK: char = '\u{200b}';

/// How a tracker folds text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Markup {
    /// `<details>`
    Html,
    /// `+++ title`
    Linear,
}

/// One checkpoint or handoff in the living comment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// `Session 3 · L2 at 86%`; the end of a run may quote what an agent said.
    pub head: String,
    pub at: Timestamp,
    /// Further text from us.
    pub facts: Vec<String>,
    /// In the agent's words.
    pub done: Vec<String>,
    pub next: Vec<String>,
    /// Its question to a person.
    pub asks: Vec<String>,
    pub document: Document,
}

/// Where the handoff can be read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Document {
    Link(String),
    /// Nowhere else, so here.
    Text(String),
    None,
}

impl Entry {
    /// The same with secrets masked, cut to the longest that is ever shown. This form is stored.
    #[must_use]
    pub fn bounded(self) -> Self {
        let lines = |lines: Vec<String>| -> Vec<String> {
            // All at once, since a key has several lines.
            let masked = mask(&lines.join("\n")).into_owned();
            let lines = masked.lines().filter(|line| !line.trim().is_empty());
            // One more shows that some are left out.
            let lines = lines.take(LINES_MAX + 1);
            lines.map(|line| one_line(line, LINE_CHARS_MAX)).collect()
        };
        Self {
            head: one_line(&mask(&self.head), LINE_CHARS_MAX),
            facts: lines(self.facts),
            done: lines(self.done),
            next: lines(self.next),
            asks: lines(self.asks),
            document: match self.document {
                Document::Text(text) => Document::Text(short(&mask(&text), DOCUMENT_CHARS_MAX)),
                document @ (Document::Link(_) | Document::None) => document,
            },
            ..self
        }
    }
}

/// The comments that people wrote. A living comment is written with the user's key, so its author may be one whom the
/// user trusts, but its words are an agent's.
pub fn of_people(mut comments: Vec<Comment>) -> Vec<Comment> {
    comments.retain(|comment| !is_living(&comment.text));
    comments
}

pub(crate) fn is_living(comment: &str) -> bool {
    HEADS.iter().any(|head| comment.starts_with(head))
}

/// The living comment: oldest first, the newest open, the others folded.
pub fn comment(head: &str, entries: &[&Entry], markup: Markup) -> String {
    let Some((newest, older)) = entries.split_last() else {
        return head.to_owned();
    };
    // The end of a run has no handoff, and should not hide the last one.
    let document = entries
        .iter()
        .rev()
        .find_map(|entry| match &entry.document {
            Document::Text(text) => Some(text.as_str()),
            Document::Link(_) | Document::None => None,
        });
    let newest = format!(
        "### {}\n\n{}",
        defused(&newest.head),
        body(newest, document, markup)
    );
    let room = COMMENT_BYTES_MAX.saturating_sub(head.len() + newest.len());
    // The oldest lose their text first, then their line.
    let mut folded = Vec::new();
    let heads = older.iter().map(|entry| defused(&entry.head));
    let heads: Vec<String> = heads.collect();
    let mut used = heads.iter().map(|head| head.len() + 2).sum::<usize>();
    let mut left_out = 0;
    while used > room && left_out < heads.len() {
        used -= heads[left_out].len() + 2;
        left_out += 1;
    }
    for (entry, head) in older.iter().zip(heads).skip(left_out).rev() {
        let whole = fold(&head, &body(entry, None, markup), markup);
        used += whole.len();
        folded.push(match used <= room {
            true => whole,
            false => format!("{head}\n\n"),
        });
    }
    if left_out > 0 {
        folded.push(format!("Earlier entries left out: {left_out}.\n\n"));
    }
    folded.reverse();
    format!("{head}\n\n{}{newest}", folded.concat())
}

fn body(entry: &Entry, document: Option<&str>, markup: Markup) -> String {
    let mut text = String::new();
    for fact in &entry.facts {
        text.push_str(&format!("{}\n\n", defused(&one_line(fact, LINE_CHARS_MAX))));
    }
    for (heading, lines) in [
        ("Asks", &entry.asks),
        ("Done", &entry.done),
        ("Next", &entry.next),
    ] {
        if !lines.is_empty() {
            text.push_str(&format!(
                "{heading}:\n\n{}",
                quoted(lines.iter().map(String::as_str), LINES_MAX)
            ));
        }
    }
    if let Document::Link(url) = &entry.document {
        text.push_str(&format!("Handoff: {url}\n\n"));
    }
    if let Some(document) = document {
        let document = clean(document).text;
        text.push_str(&fold(
            "Handoff",
            &quoted(document.lines(), DOCUMENT_LINES_MAX),
            markup,
        ));
    }
    text.push_str(&format!("{}\n\n", entry.at.rfc3339()));
    text
}

fn fold(title: &str, text: &str, markup: Markup) -> String {
    match markup {
        Markup::Html => format!("<details><summary>{title}</summary>\n\n{text}</details>\n\n"),
        Markup::Linear => format!("+++ {title}\n\n{text}+++\n\n"),
    }
}

/// Lines as a quotation, within bounds.
fn quoted<'a>(lines: impl Iterator<Item = &'a str>, lines_max: usize) -> String {
    let lines = lines.filter(|line| !line.trim().is_empty());
    let mut text = String::new();
    for (count, line) in lines.enumerate() {
        if count == lines_max || text.len() > 2 * DOCUMENT_CHARS_MAX {
            text.push_str("> …\n");
            break;
        }
        text.push_str(&format!(
            "> {}  \n",
            defused(&one_line(line, LINE_CHARS_MAX))
        ));
    }
    text + "\n"
}

/// The body of a pull request: a run's report, which is masked and has no foreign markup, without anything
/// that notifies or closes.
pub fn pull_request(report: &str) -> String {
    short(&broken(&mask(report)), BODY_CHARS_MAX)
}

/// The text without anything that notifies, refers, closes, links, embeds or is page markup: `@name`,
/// `#12`, `ANV-12`, `GH-12`, addresses, tags, brackets. Then a word such as "fixes" has nothing to close.
pub fn defused(text: &str) -> String {
    broken(&text.replace('[', "\\[")).replace('<', "&lt;")
}

fn broken(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 16);
    let (mut before, mut rest) = (' ', text.chars().peekable());
    while let Some(c) = rest.next() {
        let next = rest.peek().copied().unwrap_or(' ');
        out.push(c);
        let refers = match c {
            '@' => next.is_alphanumeric(),
            '#' | '!' => next.is_ascii_digit(),
            '-' => before.is_ascii_alphanumeric() && next.is_ascii_digit(),
            ':' => next == '/',
            // An entity is another form of such a character, and a second backslash ends an escape.
            '&' => next == '#' || next.is_ascii_alphabetic(),
            '\\' => next == '\\',
            'w' | 'W' => before.eq_ignore_ascii_case(&'w') && next == '.',
            _ => false,
        };
        if refers {
            out.push(BREAK);
        }
        before = c;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(number: u32, done: &str) -> Entry {
        Entry {
            head: format!("Session {number} · L2 at 86%"),
            at: Timestamp(1_792_000_000_000),
            facts: vec!["handed off after 14m".to_owned()],
            done: vec![done.to_owned()],
            next: vec!["Finish the parser".to_owned()],
            asks: Vec::new(),
            document: Document::Text(format!("# Handoff\n\nfixes #12 for @mia {number}")),
        }
    }

    // shows: LIN-002
    #[test]
    fn each_session_has_an_entry_and_the_newest_is_open() {
        let (one, two) = (entry(1, "Read the code"), entry(2, "Wrote the lexer"));
        expect_test::expect![[r#"
            ekiden works here.

            <details><summary>Session 1 · L2 at 86%</summary>

            handed off after 14m

            Done:

            > Read the code  

            Next:

            > Finish the parser  

            2026-10-14T17:46:40Z

            </details>

            ### Session 2 · L2 at 86%

            handed off after 14m

            Done:

            > Wrote the lexer  

            Next:

            > Finish the parser  

            <details><summary>Handoff</summary>

            > # Handoff  
            > fixes #~12 for @~mia 2  

            </details>

            2026-10-14T17:46:40Z

        "#]]
        .assert_eq(&comment("ekiden works here.", &[&one, &two], Markup::Html).replace(BREAK, "~"));
        let end = Entry {
            head: "Run ended".to_owned(),
            document: Document::None,
            ..entry(3, "")
        };
        let ended = comment("x", &[&one, &two, &end], Markup::Html);
        let (_, newest) = ended.split_once("### Run ended\n").unwrap();
        assert!(newest.contains("mia 2  \n"), "{newest}");
        assert_eq!(ended.matches("# Handoff").count(), 1, "{ended}");
        let linear = comment("x", &[&one, &two], Markup::Linear);
        assert!(
            linear.contains("+++ Session 1 · L2 at 86%\n") && !linear.contains("<details>"),
            "{linear}"
        );
    }

    // shows: LIN-002
    #[test]
    fn however_many_entries_there_are_none_is_missing_and_the_comment_fits() {
        let mut all: Vec<Entry> = (1..=400)
            .map(|number| entry(number, &"word ".repeat(60)))
            .collect();
        all[399].document = Document::Text("a long line of words\n".repeat(10_000));
        let all: Vec<Entry> = all.into_iter().map(Entry::bounded).collect();
        let text = comment("x", &all.iter().collect::<Vec<_>>(), Markup::Html);
        assert!(text.len() <= 65_000, "{}", text.len());
        for entry in &all {
            assert!(text.contains(&entry.head), "{}", entry.head);
        }
    }

    /// GitHub refuses a comment that is too long, and with it all that waits for the issue.
    // shows: LIN-002
    #[test]
    fn of_thousands_of_entries_the_oldest_are_left_out() {
        let all: Vec<Entry> = (1..=5_000).map(|number| entry(number, "x")).collect();
        let text = comment("x", &all.iter().collect::<Vec<_>>(), Markup::Html);
        assert!(text.len() <= 65_000, "{}", text.len());
        let (head, shown) = text.split_once(".\n\n").unwrap();
        let shown = shown.matches("Session ").count();
        let left_out = format!("x\n\nEarlier entries left out: {}", 5_000 - shown);
        assert_eq!(head, left_out);
    }

    // shows: LIN-002, MEM-12
    #[test]
    fn nothing_of_an_agent_notifies_refers_closes_or_is_markup() {
        let hostile = "Fixes #12, closes GH-3 and ANV-123; @mia see https://github.com/a/b/issues/1 or www.x.org \
                       <!-- ekiden:k --> </details> ![i](x) [l](y) a/b#4 !5 \\[m](//evil.example) &commat;mia &num;12";
        let text = defused(hostile);
        for live in [
            "#12", "GH-3", "ANV-123", "@mia", "://", "www.", "<", "![", " [l", "#4", "!5",
            " \\\\[", "&num", "&commat",
        ] {
            assert!(!text.contains(live), "{live} in {text}");
        }
        assert_eq!(defused("Vec<T>, a < b"), "Vec&lt;T>, a &lt; b");
        assert_eq!(
            defused("a - b: c @ # 1 well-known"),
            "a - b: c @ # 1 well-known"
        );
        let secret = format!("ghp_{}", "a1B2c3D4e5F6".repeat(3));
        let all = comment("x", &[&entry(1, &secret).bounded()], Markup::Html);
        assert!(!all.contains(&secret), "{all}");
        let handoff = Entry {
            document: Document::Text(format!("# Handoff\n\nkey {secret}")),
            ..entry(1, "Read the code")
        };
        let all = comment("x", &[&handoff.bounded()], Markup::Html);
        assert!(!all.contains(&secret) && all.contains("> key "), "{all}");
        // What an agent says as it fails is in the heading of the run's end.
        let end = Entry {
            head: format!("Run ended · {hostile} {secret}"),
            ..entry(1, "")
        };
        let end = end.bounded();
        let all = comment("x", &[&end, &end], Markup::Html);
        for live in ["#12", "@mia", "://", "</details> !", &*secret] {
            assert!(!all.contains(live), "{live} in {all}");
        }
        let dashes = "-----";
        let line = "a1B2c3D4e5F6g7H8".repeat(4);
        let asks = [
            &format!("{dashes}BEGIN PRIVATE KEY{dashes}"),
            &line,
            &format!("{dashes}END PRIVATE KEY{dashes}"),
        ];
        let asked = Entry {
            asks: asks.map(String::clone).to_vec(),
            ..entry(1, "Read the code")
        };
        let all = comment("x", &[&asked.bounded()], Markup::Html);
        assert!(
            !all.contains(&line) && all.contains("END PRIVATE KEY"),
            "{all}"
        );
    }
}
