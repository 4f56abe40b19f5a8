//! The items of a task: `- [ ] text`, each with the fenced shell blocks below it.
//!
//! Only the user's own words are read here, except the names of items in an issue. A block belongs to the nearest
//! item above it, indented or not, unless a heading comes between them. Text in fences and in quotes is never an item.

use ekiden_core::handoff::open_items;
use ekiden_core::relay::ITEMS_FILE;
use ekiden_core::text::{letters, one_line, shell_word};
use pulldown_cmark::{CodeBlockKind, Event, Options, Parser, Tag, TagEnd};

/// How much of an item's text names it, in characters.
const NAME_CHARS_MAX: usize = 80;
/// Shells by the word after the fence.
const SHELLS: [(&str, &str); 3] = [("sh", "sh"), ("shell", "sh"), ("bash", "bash")];

/// The word after the fence of a block that checks whether an item is done. Planning reads it, nothing
/// runs it.
pub(super) const CHECK: &str = "check";

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Item {
    pub(super) name: String,
    pub(super) ticked: bool,
    /// All of its blocks, as one script.
    pub(super) script: Option<Script>,
    /// The command that shows that the item is done, for a plan.
    pub(super) check: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Script {
    pub(super) shell: &'static str,
    pub(super) text: String,
}

#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "most of the parser's events mean nothing here"
)]
pub(super) fn items(task: &str) -> Vec<Item> {
    let mut items: Vec<Item> = Vec::new();
    let (mut in_item, mut quotes) = (false, 0);
    let mut block: Option<(String, String)> = None;
    for (event, range) in Parser::new_ext(task, Options::ENABLE_TASKLISTS).into_offset_iter() {
        match event {
            Event::TaskListMarker(ticked) if quotes == 0 => {
                let text = task[range.end..].lines().next().unwrap_or_default();
                items.push(Item {
                    name: name(&words(text)),
                    ticked,
                    script: None,
                    check: None,
                });
                in_item = true;
            }
            Event::Start(Tag::Heading { .. }) => in_item = false,
            Event::Start(Tag::BlockQuote(_)) => quotes += 1,
            Event::End(TagEnd::BlockQuote(_)) => quotes -= 1,
            Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(info))) => {
                let word = info.split_whitespace().next().unwrap_or_default();
                block = Some((word.to_owned(), String::new()));
            }
            Event::Text(text) => {
                if let Some((_, block)) = &mut block {
                    block.push_str(&text);
                }
            }
            Event::End(TagEnd::CodeBlock) => {
                if let (Some((word, text)), Some(item)) = (block.take(), items.last_mut())
                    && in_item
                    && quotes == 0
                {
                    item.add_block(&word, text);
                }
            }
            _other => {}
        }
    }
    items.retain(|item| !item.name.is_empty());
    items
}

/// The list item that a session works on alone, with the task's commands for it. Its last command ticks it. `which`: the
/// number of the item among the open ones with its words, and their count; those of the task before them are done.
pub(super) fn of_list(items: Vec<Item>, text: &str, which: (usize, usize)) -> Item {
    let is_it = |item: &Item| key(&item.name) == key(&name(text));
    let (number, count) = which;
    let before = items.iter().filter(|item| is_it(item)).count() + number;
    let of_task = items.into_iter().filter(is_it);
    let of_task = of_task.take(before.saturating_sub(count)).last();
    let mut item = of_task.unwrap_or_else(|| Item {
        name: name(text),
        ticked: false,
        script: None,
        check: None,
    });
    item.ticked = false;
    item.add_block("sh", tick(text));
    item
}

/// Ticks an item in the list, and restores it if it is gone. Lines are compared without punctuation and blanks,
/// since the text has no markup; if it was cut, only its beginning is compared.
fn tick(text: &str) -> String {
    let whole = text.strip_suffix('…').unwrap_or(text);
    let same = match whole == text {
        true => "key($0) == key(ENVIRON[\"ITEM\"])",
        false => "index(key($0), key(ENVIRON[\"ITEM\"])) == 1",
    };
    let (item, name) = (shell_word(whole), shell_word(&name(text)));
    format!(
        r#"ITEM={item} LC_ALL=C awk 'function key(s) {{
  s = tolower(s)
  sub(/^[^a-z0-9[]*([0-9]+[.)][ \t]*)?\[[ x]\]/, "", s)
  gsub(/\]\([^)]*\)/, "", s)
  gsub(/[ -\/:-`{{-~\t\r]/, "", s)
  return s
}}
/\[[ xX]\]/ && {same} {{ if (!done && sub(/\[ \]/, "[x]")) done = 1; found = 1 }}
{{ print }}
END {{ if (!found) print "- [x] " ENVIRON["ITEM"] }}' {ITEMS_FILE} > {ITEMS_FILE}.new && mv {ITEMS_FILE}.new {ITEMS_FILE} && printf 'done: %s\n' {name} >> progress.txt
"#
    )
}

/// An item's words without markup, as ekiden names it in a prompt.
fn words(text: &str) -> String {
    let items = open_items(&format!("- [ ] {text}"));
    items.open.into_iter().next().unwrap_or_default()
}

impl Item {
    fn add_block(&mut self, word: &str, text: String) {
        if text.trim().is_empty() {
            return;
        }
        if let Some((_, shell)) = SHELLS.iter().find(|(name, _)| *name == word) {
            self.script = Some(match self.script.take() {
                None => Script { shell, text },
                // Each block runs where the item began, and the first block that fails is the last.
                Some(first) => Script {
                    shell: if first.shell == *shell { shell } else { "bash" },
                    text: format!("(\n{}) && (\n{text})\n", first.text),
                },
            });
        } else if word == CHECK {
            self.check = Some(text);
        }
    }
}

/// What makes two texts of an item the same: their letters and digits.
pub(super) fn key(text: &str) -> String {
    let key: String = letters(text).collect();
    if key.is_empty() {
        text.trim().to_owned()
    } else {
        key
    }
}

/// An item's text as it appears in notes.
pub(super) fn name(text: &str) -> String {
    one_line(text, NAME_CHARS_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(task: &str) -> Vec<(String, String)> {
        items(task)
            .into_iter()
            .map(|item| {
                (
                    item.name,
                    item.script.map_or(String::new(), |script| script.text),
                )
            })
            .collect()
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
                ("one".to_owned(), "echo 1\n".to_owned()),
                ("two".to_owned(), "echo 2\n  indented\n".to_owned()),
                ("three".to_owned(), String::new()),
                ("four".to_owned(), String::new()),
            ]
        );
        assert_eq!(
            items(task)
                .iter()
                .map(|item| item.ticked)
                .collect::<Vec<_>>(),
            [false, false, false, true]
        );
        let second = items(task)[1].script.clone().unwrap();
        assert_eq!(second.shell, "bash");
    }

    #[test]
    fn several_blocks_of_an_item_are_one_script() {
        let task = "- [ ] one\n```sh\na\n```\n```json\n{}\n```\n~~~ sh\nb\n~~~\n";
        assert_eq!(
            read(task),
            [("one".to_owned(), "(\na\n) && (\nb\n)\n".to_owned())]
        );
    }

    #[test]
    fn blocks_without_an_item_are_not_run() {
        assert_eq!(
            read("```sh\nrm x\n```\n- [ ] one\n## Usage\n```sh\nrm y\n```\n"),
            [("one".to_owned(), String::new())]
        );
    }

    #[test]
    fn what_stands_in_a_fence_is_text() {
        let task = "- [ ] one\n````sh\n```sh\n- [ ] no\n```\n````\n- [ ] two\n```md\n- [ ] no\n# no\n```\n```sh\nb\n```\n";
        assert_eq!(
            read(task),
            [
                ("one".to_owned(), "```sh\n- [ ] no\n```\n".to_owned()),
                ("two".to_owned(), "b\n".to_owned()),
            ]
        );
    }

    // shows: REL-33
    #[test]
    fn marked_lines_are_no_items_and_open_no_fence() {
        let task = "- [ ] one\n¦ - [ ] two\n¦ ```sh\n¦ rm x\n¦ ```\n> - [ ] three\n";
        assert_eq!(read(task), [("one".to_owned(), String::new())]);
    }

    #[test]
    fn a_name_is_one_short_line_and_its_key_ignores_markup() {
        assert_eq!(
            names("- [ ] **Build**   `it`\n- [ ] \n- [] x\n-[ ] y\n- [ ]z\n"),
            ["Build `it`"]
        );
        assert_eq!(key("**Build** `it`."), key("build it"));
        assert_ne!(key("..."), key("---"));
        assert_eq!(
            names(&format!("- [ ] {}", "é".repeat(200)))[0]
                .chars()
                .count(),
            NAME_CHARS_MAX
        );
    }

    // shows: RLP-09
    #[test]
    fn an_item_of_a_list_has_its_commands_and_then_the_tick() {
        let task = "- [ ] One\n```sh\necho 1\n```\n- [x] two\n";
        let of_list = |text| of_list(items(task), text, (1, 1));
        let one = of_list("**One**").script.unwrap().text;
        assert!(
            one.starts_with("(\necho 1\n) && (\nITEM='**One**' "),
            "{one}"
        );
        let apart = of_list("Don't *stop* (now)").script.unwrap().text;
        let line = r"printf 'done: %s\n' 'Don'\''t *stop* (now)' >> progress.txt";
        assert!(apart.contains(line), "{apart}");
        assert!(!of_list("two").ticked, "the list says what is to be done");
        assert!(of_list("new").script.unwrap().text.starts_with("ITEM=new "));
    }

    // shows: RLP-09
    #[test]
    fn of_items_with_the_same_words_the_one_in_hand_is_done() {
        let task =
            "- [ ] [a](b.md#c)\n```sh\n1\n```\n- [ ] a\n```sh\n2\n```\n- [ ] a\n```sh\n3\n```\n";
        for (which, block) in [
            ((1, 3), 1),
            ((2, 3), 2),
            ((1, 2), 2),
            ((2, 2), 3),
            ((1, 1), 3),
        ] {
            let script = of_list(items(task), "a", which).script.unwrap().text;
            assert!(
                script.contains(&format!("(\n{block}\n)")),
                "{which:?}: {script}"
            );
        }
    }
}
