//! Outputs without what differs from run to run: ids, times, lengths of time, pids, paths.
//!
//! Only whole words are replaced, so that a text that has changed shows.

use std::path::PathBuf;

/// The columns that a stage's id has at most before a line.
const STAGE_COLUMNS_MAX: usize = 12;
/// The words of a day: `Sun 22 Nov`.
const DAY_WORDS: usize = 3;
/// The fewest digits by which a run is called.
const ID_DIGITS_MIN: usize = 4;

/// How the outputs of one environment are made normal.
pub(crate) struct Normal {
    paths: Vec<(String, &'static str)>,
    runs: Vec<String>,
}

impl Normal {
    /// `names` of paths, longer ones first; `runs` are the ids that may occur.
    pub(crate) fn new(names: &[(PathBuf, &'static str)], runs: Vec<String>) -> Self {
        let text = |path: &PathBuf| path.to_str().unwrap().trim_end_matches('/').to_owned();
        Self {
            paths: names
                .iter()
                .map(|(path, name)| (text(path), *name))
                .collect(),
            runs,
        }
    }

    pub(crate) fn text(&self, text: &str) -> String {
        let paths = self.paths.iter().map(|(path, name)| (path.as_str(), *name));
        let ids = self.runs.iter().map(|run| (run.as_str(), "RUN"));
        let text = paths
            .chain(ids)
            .fold(text.to_owned(), |text, (known, name)| {
                text.replace(known, name)
            });
        let lines: Vec<String> = text.lines().map(|line| self.line(line)).collect();
        lines.join("\n")
    }

    fn line(&self, line: &str) -> String {
        let line = holder(&commit(&usage(line)));
        let mut normal: Vec<String> = Vec::new();
        for word in line.split(' ') {
            let (before, core, after) = core(word);
            let core = self.word(core);
            // `2h 51m` is one length.
            if core == "TIME"
                && before.is_empty()
                && normal.last().is_some_and(|last| last == "TIME")
            {
                normal.pop();
            }
            if core == "CLOCK" && is_day(&normal) {
                normal.truncate(normal.len() - DAY_WORDS);
            }
            normal.push(format!("{before}{core}{after}"));
        }
        normal.join(" ")
    }

    fn word<'a>(&self, word: &'a str) -> &'a str {
        // First of all: `123d` may be the beginning of an id.
        let is_run = |run: &String| word.len() >= ID_DIGITS_MIN && run.starts_with(word);
        if self.runs.iter().any(is_run) {
            "RUN"
        } else if is_length(word) {
            "TIME"
        } else if is_clock(word) {
            "CLOCK"
        } else {
            word
        }
    }
}

/// The words end with a day, `Sun 22 Nov`: a time is told with it where the day is another than before.
fn is_day(words: &[String]) -> bool {
    let day = words
        .len()
        .checked_sub(DAY_WORDS)
        .map(|from| words[from..].iter().map(String::as_str));
    let Some(&[weekday, number, month]) = day.map(Iterator::collect::<Vec<&str>>).as_deref() else {
        return false;
    };
    ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"].contains(&weekday)
        && number.parse::<u32>().is_ok()
        && month.len() == 3
}

/// The label `61% 122k` of a session, which is padded; in a plan behind the stage.
fn usage(line: &str) -> String {
    let Some(from) = line.find("  ").filter(|from| *from <= STAGE_COLUMNS_MAX) else {
        return line.to_owned();
    };
    let (stage, label) = (&line[..from], line[from..].trim_start());
    let Some((label, rest)) = label.split_once("  ") else {
        return line.to_owned();
    };
    let figures = label.split_once("% ").is_some_and(|(percent, tokens)| {
        let is_number =
            |text: &str| !text.is_empty() && text.chars().all(|c| c.is_ascii_digit() || c == '.');
        is_number(percent) && is_number(tokens.trim_end_matches('k'))
    });
    let gap = if stage.is_empty() { "  " } else { "    " };
    if figures {
        format!("{stage}{gap}USAGE  {}", rest.trim_start())
    } else {
        line.to_owned()
    }
}

/// `commit    1a2b3c4, 12 files`, `merged    1a2b3c4, 2 files, valid`, `` `main` is at 1a2b3c4 now ``.
fn commit(line: &str) -> String {
    for before in ["  commit    ", "  merged    ", "` is at "] {
        if let Some(at) = line.find(before).map(|at| at + before.len())
            && line[at..].len() > 7
            && line[at..at + 7]
                .bytes()
                .all(|byte| byte.is_ascii_hexdigit())
        {
            return format!("{}COMMIT{}", &line[..at], &line[at + 7..]);
        }
    }
    line.to_owned()
}

/// `pid 17 on atlas, since Sat 21 Nov 2026 22:04`.
fn holder(line: &str) -> String {
    match (line.split_once("pid "), line.split_once("started ")) {
        (Some((before, _)), _) => format!("{before}pid PID on HOST, since DATE"),
        (None, Some(("", _))) => "started DATE".to_owned(),
        (None, _) => line.to_owned(),
    }
}

/// A word without the marks around it.
fn core(word: &str) -> (&str, &str, &str) {
    let mark = |c: char| matches!(c, '`' | '(' | ')' | ',' | ';' | ':' | '.' | '"');
    let from = word.len() - word.trim_start_matches(mark).len();
    let to = word.trim_end_matches(mark).len().max(from);
    (&word[..from], &word[from..to], &word[to..])
}

/// `41s`, `0.3s`, `14m`, `9ms`.
fn is_length(word: &str) -> bool {
    let number = word
        .strip_suffix("ms")
        .or_else(|| word.strip_suffix(['s', 'm', 'h', 'd']));
    number.is_some_and(|number| {
        number.starts_with(|c: char| c.is_ascii_digit())
            && number.chars().all(|c| c.is_ascii_digit() || c == '.')
    })
}

/// `22:04`.
fn is_clock(word: &str) -> bool {
    let digits = |text: &str| text.len() == 2 && text.chars().all(|c| c.is_ascii_digit());
    word.split_once(':')
        .is_some_and(|(hours, minutes)| digits(hours) && digits(minutes))
}

#[test]
fn what_differs_is_replaced_and_nothing_else() {
    let names = [
        (PathBuf::from("/tmp/x/project"), "PROJECT"),
        (PathBuf::from("/tmp/x/"), "ROOT"),
    ];
    let normal = Normal::new(&names, vec!["7f3a0b1c".to_owned(), "123d4444".to_owned()]);
    let text = "run 7f3a · at most 10 · 7f3a0b1c, 7f3 · `7f3a` · 123d\nin /tmp/x/project/a.md and /tmp/x/b\n  61% 122k  \
                handed off after 2m 4s · 2h 51m, 0.3s\nsession 1 · 22:04\nx: 7f3a, pid 17 on a, since Sat";
    insta::assert_snapshot!(normal.text(text), @r"
    run RUN · at most 10 · RUN, 7f3 · `RUN` · RUN
    in PROJECT/a.md and ROOT/b
      USAGE  handed off after TIME · TIME, TIME
    session 1 · CLOCK
    x: RUN, pid PID on HOST, since DATE
    ");
}
