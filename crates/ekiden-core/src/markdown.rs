//! The parts of a Markdown text that ekiden reads: headings, plain blocks, tick boxes.
//!
//! One walk over the parser's events makes an [`Outline`]. Text in code or in a quotation is never a heading,
//! a claim or an item, however much it looks like one. For that reason a real parser reads handoffs and
//! knowledge, not a search for `##`.

use std::ops::Range;

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

use crate::text::letters;

/// What ekiden sees in a text.
#[derive(Debug, Default)]
pub(crate) struct Outline {
    /// Headings with `#` outside lists, code and quotation, in order.
    pub(crate) headings: Vec<Heading>,
    /// Paragraphs, headings and list items outside code and quotation, with their own text.
    pub(crate) leaves: Vec<Leaf>,
    /// Everything that says something and is not a heading: text, code, table cells.
    pub(crate) content: Vec<Piece>,
    /// The blocks of the text at the outermost level; items of outer lists count separately.
    pub(crate) blocks: Vec<Block>,
}

#[derive(Debug)]
pub(crate) struct Heading {
    pub(crate) level: u8,
    pub(crate) text: String,
    pub(crate) range: Range<usize>,
}

/// A block of running text.
#[derive(Debug)]
pub(crate) struct Leaf {
    /// Its text without emphasis; line breaks as line feeds, code in backticks.
    pub(crate) text: String,
    pub(crate) start: usize,
    /// Some of it is code or a link.
    pub(crate) mixed: bool,
    /// The state of its tick box.
    pub(crate) tick: Option<bool>,
}

/// A piece of content and where it begins.
#[derive(Debug)]
pub(crate) struct Piece {
    pub(crate) start: usize,
    pub(crate) text: String,
}

/// A block at the outer level of the text.
#[derive(Debug)]
pub(crate) struct Block {
    pub(crate) range: Range<usize>,
    /// The block is an item of a list, with its bullet or number.
    pub(crate) item: bool,
}

pub(crate) fn outline(source: &str) -> Outline {
    let mut reader = Reader {
        source,
        outline: Outline::default(),
        open: Vec::new(),
        leaves: Vec::new(),
    };
    for (event, range) in Parser::new_ext(source, Options::ENABLE_TASKLISTS).into_offset_iter() {
        reader.read(event, range);
    }
    reader.outline
}

/// The text under each heading of this name, up to the next one that is not below it.
pub(crate) fn sections_named<'a>(text: &'a str, name: &str) -> impl Iterator<Item = &'a str> {
    let outline = outline(text);
    let named = (0..outline.headings.len()).filter(|index| outline.headings[*index].is(name));
    let sections = named.map(|index| &text[outline.section(index, text.len(), |_| false)]);
    sections.collect::<Vec<_>>().into_iter()
}

/// The text after a bullet or number at the beginning and the blanks behind it.
pub(crate) fn without_bullet(text: &str) -> &str {
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let rest = if digits > 0 {
        text[digits..].strip_prefix(['.', ')'])
    } else {
        text.strip_prefix(['-', '*', '+'])
    };
    match rest {
        Some(rest) if rest.is_empty() || rest.starts_with([' ', '\t', '\n']) => {
            rest.trim_start_matches([' ', '\t'])
        }
        Some(_) | None => text,
    }
}

/// The number of the line that holds this offset, from 1.
pub(crate) fn line_of(source: &str, offset: usize) -> usize {
    source.as_bytes()[..offset]
        .iter()
        .filter(|b| **b == b'\n')
        .count()
        + 1
}

impl Heading {
    /// The heading has the letters of this name: in any case, with a colon or a symbol.
    pub(crate) fn is(&self, name: &str) -> bool {
        letters(&self.text).eq(letters(name))
    }
}

impl Outline {
    /// The range of the section of heading `index`: up to the next heading that is not below it, or that
    /// begins another section according to `ends`, by its index.
    pub(crate) fn section(
        &self,
        index: usize,
        end: usize,
        ends: impl Fn(usize) -> bool,
    ) -> Range<usize> {
        let heading = &self.headings[index];
        let mut later = index + 1..self.headings.len();
        let next = later.find(|next| self.headings[*next].level <= heading.level || ends(*next));
        heading.range.end..next.map_or(end, |next| self.headings[next].range.start)
    }

    /// The outer blocks that begin in a range.
    pub(crate) fn blocks_in(&self, range: &Range<usize>) -> impl Iterator<Item = &Block> {
        let begin = self
            .blocks
            .partition_point(|block| block.range.start < range.start);
        self.blocks[begin..]
            .iter()
            .take_while(|block| block.range.start < range.end)
    }

    /// The words in a range, its pieces joined by blanks.
    pub(crate) fn said(&self, range: &Range<usize>) -> String {
        let begin = self
            .content
            .partition_point(|piece| piece.start < range.start);
        let pieces = self.content[begin..]
            .iter()
            .take_while(|piece| piece.start < range.end);
        pieces
            .map(|piece| piece.text.trim())
            .collect::<Vec<_>>()
            .join(" ")
            .trim()
            .to_owned()
    }
}

/// A container or block that is open while the events go by.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Open {
    Quote,
    List,
    Item,
    Heading,
    Code,
    Other,
}

impl Open {
    fn of(tag: &Tag<'_>) -> Self {
        if let Tag::BlockQuote(_) = tag {
            Self::Quote
        } else if let Tag::List(_) = tag {
            Self::List
        } else if let Tag::Heading { .. } = tag {
            Self::Heading
        } else if let Tag::CodeBlock(_) = tag {
            Self::Code
        } else if *tag == Tag::Item {
            Self::Item
        } else {
            Self::Other
        }
    }
}

/// Emphasis and links: their text belongs to the block around them.
fn is_inline(tag: &TagEnd) -> bool {
    matches!(
        tag,
        TagEnd::Emphasis | TagEnd::Strong | TagEnd::Link | TagEnd::Image
    )
}

/// Blocks that contain running text directly.
fn holds_text(tag: &TagEnd) -> bool {
    matches!(tag, TagEnd::Paragraph | TagEnd::Item | TagEnd::Heading(_))
}

/// A heading with `#`. One that is underlined may begin with `#` too, but has a second line.
fn is_atx(heading: &str) -> bool {
    heading.starts_with('#') && !heading.trim_end().contains('\n')
}

struct Reader<'a> {
    source: &'a str,
    outline: Outline,
    open: Vec<Open>,
    leaves: Vec<Leaf>,
}

impl Reader<'_> {
    fn read(&mut self, event: Event<'_>, range: Range<usize>) {
        match event {
            Event::Start(tag) => self.start(&tag, range),
            Event::End(tag) => self.end(tag, range),
            Event::Text(text) => self.text(&text, range.start),
            Event::Code(code) => {
                self.mix();
                self.text(&format!("`{code}`"), range.start);
            }
            Event::SoftBreak | Event::HardBreak => self.append("\n"),
            Event::TaskListMarker(ticked) => {
                if let Some(leaf) = self.leaves.last_mut() {
                    leaf.tick = Some(ticked);
                }
            }
            Event::Rule => self.block(range, false),
            Event::InlineHtml(html) => {
                self.mix();
                if !html.starts_with("<!--") {
                    self.append(&html);
                }
            }
            Event::Html(_)
            | Event::InlineMath(_)
            | Event::DisplayMath(_)
            | Event::FootnoteReference(_) => {}
        }
    }

    fn start(&mut self, tag: &Tag<'_>, range: Range<usize>) {
        if matches!(tag, Tag::Link { .. } | Tag::Image { .. }) {
            self.mix();
        }
        if is_inline(&tag.to_end()) {
            return;
        }
        let open = Open::of(tag);
        if open != Open::List {
            self.block(range.clone(), open == Open::Item);
        }
        if holds_text(&tag.to_end()) {
            self.leaves.push(Leaf {
                text: String::new(),
                start: range.start,
                mixed: false,
                tick: None,
            });
        }
        self.open.push(open);
    }

    fn end(&mut self, tag: TagEnd, range: Range<usize>) {
        if is_inline(&tag) {
            return;
        }
        self.open.pop();
        if !holds_text(&tag) {
            return;
        }
        let Some(leaf) = self.leaves.pop() else {
            return;
        };
        if let TagEnd::Heading(level) = tag
            && self.open.is_empty()
            && is_atx(&self.source[range.clone()])
        {
            let text = leaf.text.trim().to_owned();
            self.outline.headings.push(Heading {
                level: level as u8,
                text,
                range,
            });
        }
        if !leaf.text.trim().is_empty() && !self.open.contains(&Open::Quote) {
            self.outline.leaves.push(leaf);
        }
    }

    fn text(&mut self, text: &str, start: usize) {
        if !self.open.contains(&Open::Code) {
            self.append(text);
        }
        if !self.open.contains(&Open::Heading) && !text.trim().is_empty() {
            self.outline.content.push(Piece {
                start,
                text: text.to_owned(),
            });
        }
    }

    fn append(&mut self, text: &str) {
        if let Some(leaf) = self.leaves.last_mut() {
            leaf.text.push_str(text);
        }
    }

    fn mix(&mut self) {
        if let Some(leaf) = self.leaves.last_mut() {
            leaf.mixed = true;
        }
    }

    /// Records a block of the outer level, or an item of an outer list.
    fn block(&mut self, range: Range<usize>, item: bool) {
        let outer: &[Open] = if item { &[Open::List] } else { &[] };
        if self.open == outer {
            self.outline.blocks.push(Block { range, item });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headings(source: &str) -> Vec<String> {
        outline(source)
            .headings
            .into_iter()
            .map(|h| format!("{} {}", h.level, h.text))
            .collect()
    }

    #[test]
    fn only_real_headings_count() {
        let source = "# One\ntext ## not\n```\n## code\n```\n    ## indented\n> ## quoted\n- ## item\n\nSet\n===\n### Two #";
        assert_eq!(headings(source), ["1 One", "3 Two"]);
    }

    #[test]
    fn a_section_reaches_to_the_next_heading_that_is_not_below_it() {
        let source = "## A\none\n### sub\ntwo\n## B\nthree";
        let outline = outline(source);
        let said = |i| outline.said(&outline.section(i, source.len(), |_| false));
        assert_eq!(said(0), "one two");
        assert_eq!(said(2), "three");
        let until_sub =
            outline.section(0, source.len(), |next| outline.headings[next].text == "sub");
        assert_eq!(outline.said(&until_sub), "one");
    }

    #[test]
    fn tick_boxes_belong_to_the_text_beside_them() {
        let outline =
            outline("- [ ] tight `code`\n- [x] done\n  - [X] below\n\n\n1. [ ] loose\n\n   more\n");
        let ticks: Vec<_> = outline
            .leaves
            .iter()
            .filter_map(|l| l.tick.map(|t| (t, l.text.as_str())))
            .collect();
        assert_eq!(
            ticks,
            [
                (false, "tight `code`"),
                (true, "below"),
                (true, "done"),
                (false, "loose")
            ]
        );
    }

    #[test]
    fn deep_nesting_is_read_in_a_moment() {
        for piece in ["- ", "> ", "1. ", "- > ", "*a ", "[", "`", "# x\n"] {
            let _ = outline(&piece.repeat(crate::limits::HANDOFF_FILE_BYTES_MAX / piece.len()));
        }
    }

    #[test]
    fn lines_are_counted_from_one() {
        assert_eq!(line_of("a\nb\nc", 0), 1);
        assert_eq!(line_of("a\nb\nc", 4), 3);
    }
}
