//! What the agent says and does, in lines that stay: for `run -v` as it happens, and for a saved stream.
//!
//! Every text is made plain and short, since an agent may print anything: escape sequences go, and a long
//! speech is cut with a mark. A run keeps the whole, for `ekiden show --events`.

use ekiden_agent::attempt::Activity;
use ekiden_core::text;

use super::line::{Line, Tone, one_line};
use super::phrase;

/// Lines told of one speech while it happens. More would push out what ekiden has to tell.
const WORDS_LINES_MAX: usize = 12;

/// The lines of what happens in a session. Warnings are told elsewhere, asked for or not.
#[must_use]
pub fn lines(activity: &Activity) -> Vec<Line> {
    match activity {
        Activity::Tool { name, target } => vec![call(name, target)],
        Activity::Words(said) => {
            let mut lines = words(said);
            let more = lines.len().saturating_sub(WORDS_LINES_MAX);
            if more > 0 {
                lines.truncate(WORDS_LINES_MAX);
                let more = format!("({} left out)", phrase::count(more as u64, "line"));
                lines.push(Line::labelled("", Tone::Quiet, more));
            }
            lines
        }
        Activity::Retry { attempt, error } => vec![retry(*attempt, error)],
        Activity::Warning(_) => Vec::new(),
    }
}

/// A call of a tool.
#[must_use]
pub fn call(name: &str, target: &str) -> Line {
    Line::labelled(&one_line(name), Tone::Quiet, one_line(target))
}

/// What the agent said, a line for each of its own that says something.
#[must_use]
pub fn words(said: &str) -> Vec<Line> {
    let clean = text::clean(said).text;
    let labels = std::iter::once("says").chain(std::iter::repeat(""));
    let texts = clean.lines().map(one_line).filter(|line| !line.is_empty());
    labels.zip(texts).map(|(label, line)| Line::labelled(label, Tone::Plain, line)).collect()
}

/// The service is asked again.
#[must_use]
pub fn retry(attempt: u32, error: &str) -> Line {
    let text = format!("the service is asked again ({attempt}): {error}");
    Line::labelled("", Tone::Attention, one_line(&text))
}

#[cfg(test)]
mod tests {
    use super::*;

    // shows: RUN-02
    #[test]
    fn what_an_agent_says_and_does_is_told_in_calm_lines() {
        let tool =
            |name: &str, target: &str| Activity::Tool { name: name.to_owned(), target: target.to_owned() };
        let long: String = (1..=40).map(|n| format!("point {n}\n")).collect();
        let told = [
            tool("Bash", "pytest -q\u{1b}[31m tests\nrm"),
            Activity::Words("First the tests.\n\n\u{1b}]0;title\u{7}Then \u{1b}[2Jthe rest.\r\n".to_owned()),
            Activity::Words("\n \n".to_owned()),
            Activity::Words(long),
            Activity::Retry { attempt: 2, error: "overloaded\u{8}".to_owned() },
            Activity::Warning("told as a warning".to_owned()),
        ];
        let text: Vec<String> =
            told.iter().flat_map(lines).map(|line| line.plain().trim_end().to_owned() + "\n").collect();
        expect_test::expect![[r#"
            told
              Bash      pytest -q tests rm
              says      First the tests.
                        Then the rest.
              says      point 1
                        point 2
                        point 3
                        point 4
                        point 5
                        point 6
                        point 7
                        point 8
                        point 9
                        point 10
                        point 11
                        point 12
                        (28 lines left out)
                        the service is asked again (2): overloaded
        "#]]
        .assert_eq(&format!("told\n{}", text.concat()));
        let endless = lines(&Activity::Words("x".repeat(1_000_000)));
        assert!(endless.len() == 1 && endless[0].plain().chars().count() < 300);
    }
}
