//! The items of a task: `- [ ] text`, each with the fenced shell blocks below it.
//!
//! Only the user's own words are read here. A block belongs to the nearest item above it, indented
//! or not, unless a heading lies between. Text in fences is never an item.

use ekiden_core::text::one_line;

/// The most of an item's text that names it, in characters.
const NAME_CHARS_MAX: usize = 80;
/// Shells by the word after the fence.
const SHELLS: [(&str, &str); 3] = [("sh", "sh"), ("shell", "sh"), ("bash", "bash")];

/// The word after the fence of a block that tells whether an item is done. Planning reads it, nothing runs it.
pub(super) const CHECK: &str = "check";

/// One item of a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Item {
    /// Its first line, shortened.
    pub(super) name: String,
    /// The user ticked it beforehand.
    pub(super) ticked: bool,
    /// What to run for it.
    pub(super) scripts: Vec<Script>,
    /// What tells that it is done, if the block below says so.
    pub(super) check: Option<String>,
}

/// A block of commands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Script {
    /// The program that runs it.
    pub(super) shell: &'static str,
    /// The commands as they stand in the block.
    pub(super) text: String,
}

/// The items of a task, in order.
pub(super) fn items(task: &str) -> Vec<Item> {
    let mut reader = Reader::default();
    for line in task.lines() {
        reader.read(line);
    }
    reader.close_fence();
    reader.items
}

/// An item line: whether it is ticked, and its text.
pub(super) fn item_line(line: &str) -> Option<(bool, &str)> {
    let text = after_bullet(line.trim_start())?;
    let (ticked, rest) = ["[ ]", "[x]", "[X]"]
        .iter()
        .find_map(|tick| text.strip_prefix(tick).map(|rest| (*tick != "[ ]", rest)))?;
    let named = rest.starts_with([' ', '\t']) && !rest.trim().is_empty();
    named.then(|| (ticked, rest.trim()))
}

/// By what two texts of an item are the same: their letters and digits.
pub(super) fn key(text: &str) -> String {
    let key: String = text.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect();
    if key.is_empty() { text.trim().to_owned() } else { key }
}

/// An item's text as it stands in notes.
pub(super) fn name(text: &str) -> String {
    one_line(text, NAME_CHARS_MAX)
}

#[derive(Default)]
struct Reader {
    items: Vec<Item>,
    /// The item that a block would belong to is the last one.
    in_item: bool,
    fence: Option<Fence>,
}

struct Fence {
    mark: char,
    length: usize,
    indent: usize,
    holds: Option<Holds>,
    text: String,
}

/// What a block is to an item.
#[derive(Clone, Copy)]
enum Holds {
    Script(&'static str),
    Check,
}

impl Reader {
    fn read(&mut self, line: &str) {
        if let Some(fence) = &mut self.fence {
            if fence.is_closed_by(line) {
                self.close_fence();
            } else {
                fence.push(line);
            }
        } else if let Some(fence) = Fence::open(line) {
            self.fence = Some(fence);
        } else if let Some((ticked, text)) = item_line(line) {
            self.items.push(Item { name: name(text), ticked, scripts: Vec::new(), check: None });
            self.in_item = true;
        } else if line.starts_with('#') {
            self.in_item = false;
        }
    }

    fn close_fence(&mut self) {
        let Some(Fence { holds: Some(holds), text, .. }) = self.fence.take() else { return };
        if let Some(item) = self.items.last_mut().filter(|_| self.in_item && !text.trim().is_empty()) {
            match holds {
                Holds::Script(shell) => item.scripts.push(Script { shell, text }),
                Holds::Check => item.check = Some(text),
            }
        }
    }
}

impl Fence {
    fn open(line: &str) -> Option<Self> {
        let body = line.trim_start();
        let mark = body.chars().next().filter(|c| matches!(c, '`' | '~'))?;
        let length = run_of(body, mark);
        let info = &body[length..];
        if length < 3 || (mark == '`' && info.contains('`')) {
            return None;
        }
        let word = info.split_whitespace().next().unwrap_or_default();
        let shell = SHELLS.iter().find(|(name, _)| *name == word).map(|(_, shell)| Holds::Script(shell));
        let holds = shell.or((word == CHECK).then_some(Holds::Check));
        Some(Self { mark, length, indent: line.len() - body.len(), holds, text: String::new() })
    }

    fn is_closed_by(&self, line: &str) -> bool {
        let body = line.trim();
        body.len() >= self.length && run_of(body, self.mark) == body.len()
    }

    /// The indentation of the fence is no part of its content.
    fn push(&mut self, line: &str) {
        let indent = line.bytes().take(self.indent).take_while(|b| matches!(b, b' ' | b'\t')).count();
        self.text.push_str(&line[indent..]);
        self.text.push('\n');
    }
}

/// How often an ASCII character stands at the beginning.
fn run_of(text: &str, mark: char) -> usize {
    text.chars().take_while(|c| *c == mark).count()
}

/// What follows the bullet or number at the beginning of a line.
fn after_bullet(line: &str) -> Option<&str> {
    let digits = line.bytes().take_while(u8::is_ascii_digit).count();
    let rest =
        if digits > 0 { line[digits..].strip_prefix(['.', ')']) } else { line.strip_prefix(['-', '*', '+']) };
    rest.filter(|rest| rest.starts_with([' ', '\t'])).map(str::trim_start)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(task: &str) -> Vec<(String, Vec<String>)> {
        let texts = |item: &Item| item.scripts.iter().map(|script| script.text.clone()).collect();
        items(task).iter().map(|item| (item.name.clone(), texts(item))).collect()
    }

    fn names(task: &str) -> Vec<String> {
        items(task).into_iter().map(|item| item.name).collect()
    }

    // shows: AGT-05
    #[test]
    fn items_have_the_blocks_below_them_indented_or_not() {
        let task = "# Title\n\nText.\n\n- [ ] one\n\n```sh\necho 1\n```\n* [ ] two\n  more of two\n  ```bash\n  echo 2\n    \
                    indented\n  ```\n1. [ ] three\n2) [x] four\n";
        assert_eq!(
            read(task),
            [
                ("one".to_owned(), vec!["echo 1\n".to_owned()]),
                ("two".to_owned(), vec!["echo 2\n  indented\n".to_owned()]),
                ("three".to_owned(), vec![]),
                ("four".to_owned(), vec![]),
            ]
        );
        assert_eq!(
            items(task).iter().map(|item| item.ticked).collect::<Vec<_>>(),
            [false, false, false, true]
        );
        assert_eq!(items(task)[1].scripts[0].shell, "bash");
    }

    #[test]
    fn an_item_may_have_several_blocks_and_others_beside_them() {
        let task = "- [ ] one\n```sh\na\n```\n```json\n{}\n```\n~~~ sh\nb\n~~~\n";
        assert_eq!(read(task), [("one".to_owned(), vec!["a\n".to_owned(), "b\n".to_owned()])]);
    }

    #[test]
    fn blocks_without_an_item_are_not_run() {
        assert_eq!(
            read("```sh\nrm x\n```\n- [ ] one\n## Usage\n```sh\nrm y\n```\n"),
            [("one".to_owned(), vec![])]
        );
    }

    #[test]
    fn what_stands_in_a_fence_is_text() {
        let task = "- [ ] one\n````sh\n```sh\n- [ ] no\n```\n````\n- [ ] two\n```md\n- [ ] no\n# no\n```\n```sh\nb\n```\n";
        assert_eq!(
            read(task),
            [
                ("one".to_owned(), vec!["```sh\n- [ ] no\n```\n".to_owned()]),
                ("two".to_owned(), vec!["b\n".to_owned()]),
            ]
        );
    }

    // shows: REL-33
    #[test]
    fn marked_lines_are_no_items_and_open_no_fence() {
        let task = "- [ ] one\n¦ - [ ] two\n¦ ```sh\n¦ rm x\n¦ ```\n> - [ ] three\n";
        assert_eq!(read(task), [("one".to_owned(), vec![])]);
    }

    #[test]
    fn a_name_is_one_short_line_and_its_key_ignores_markup() {
        assert_eq!(names("- [ ] **Build**   `it`\n- [ ] \n- [] x\n-[ ] y\n- [ ]z\n"), ["**Build** `it`"]);
        assert_eq!(key("**Build** `it`."), key("build it"));
        assert_ne!(key("..."), key("---"));
        assert_eq!(names(&format!("- [ ] {}", "é".repeat(200)))[0].chars().count(), NAME_CHARS_MAX);
    }
}
