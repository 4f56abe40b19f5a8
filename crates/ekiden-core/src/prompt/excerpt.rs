//! Foreign texts side by side within one budget: files, and results of stages.
//!
//! Each excerpt has a line with its name, then its first lines, then a mark if lines are left out. Names come
//! first: a text that gets no lines is at least named. If there are very many, the last ones are only
//! counted. The excerpts share the remaining room:
//!
//! - *level*: no text gets more than another one that is cut, so small ones stay whole;
//! - *in order*: the first takes what it needs.

use serde::{Deserialize, Serialize};

use super::budget::{self, Mark};
use super::quote::{MARK, plain_name, quote};
use crate::limits;

/// The beginning of a foreign text, for a prompt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Excerpt {
    /// What the text is, on one line.
    pub name: String,
    /// Where to read the whole, on one line.
    pub place: String,
    pub text: String,
    /// How many lines are left out after them.
    #[serde(default, skip_serializing_if = "crate::is_zero")]
    pub left_out: usize,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Excerpts {
    pub items: Vec<Excerpt>,
    /// How many more there are that are not named.
    #[serde(default, skip_serializing_if = "crate::is_zero")]
    pub more: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sharing {
    Level,
    InOrder,
}

/// A name or a place, in characters.
const NAME_CHARS_MAX: usize = 160;
/// The line that counts the others, in bytes.
const MORE_BYTES_MAX: usize = 64;

impl Excerpt {
    pub(super) fn of(name: &str, place: &str, text: &str) -> Self {
        let quoted = quote(text.trim_end()).text;
        let text = if quoted.is_empty() {
            format!("{MARK}[empty]\n")
        } else {
            quoted
        };
        Self {
            name: plain_name(name, NAME_CHARS_MAX),
            place: plain_name(place, NAME_CHARS_MAX),
            text,
            left_out: 0,
        }
    }

    /// A name with one of our remarks in place of its text.
    pub(super) fn remark(name: &str, remark: &str) -> Self {
        Self {
            text: format!("{MARK}[{remark}]\n"),
            ..Self::of(name, name, "")
        }
    }

    pub(super) fn print(&self) -> String {
        match (self.text.is_empty(), self.left_out) {
            (true, left_out) => self.bare(left_out),
            (false, 0) => format!("{}{}", self.header(), self.text),
            (false, left_out) => format!("{}{}{}", self.header(), self.text, self.mark(left_out)),
        }
    }

    /// At most this many bytes of it; at least its name.
    pub(super) fn within(&self, bytes_max: usize) -> Self {
        if self.print().len() <= bytes_max {
            return self.clone();
        }
        let lines = self.lines();
        let fixed = self.header().len() + self.mark(lines).len();
        let mut room = bytes_max.saturating_sub(fixed);
        let kept: String = self
            .text
            .split_inclusive('\n')
            .map_while(|line| {
                room = room.checked_sub(line.len())?;
                Some(line)
            })
            .collect();
        Self {
            left_out: lines - kept.lines().count(),
            text: kept,
            ..self.clone()
        }
    }

    /// The size of its name alone.
    fn least(&self) -> usize {
        self.bare(self.lines()).len().min(self.print().len())
    }

    fn lines(&self) -> usize {
        self.text.lines().count() + self.left_out
    }

    fn header(&self) -> String {
        format!("{MARK}--- {}\n", self.name)
    }

    fn mark(&self, left_out: usize) -> String {
        Mark::new(MARK, &self.place).line(left_out)
    }

    fn bare(&self, left_out: usize) -> String {
        Mark::new(&format!("{MARK}--- {} ", self.name), &self.place).line(left_out)
    }
}

impl Excerpts {
    pub(super) fn of(items: Vec<Excerpt>) -> Self {
        Self { items, more: 0 }
    }

    pub(super) fn print(&self) -> String {
        let mut text: String = self.items.iter().map(Excerpt::print).collect();
        if self.more > 0 {
            text.push_str(&format!("{MARK}[{} more, not named here]\n", self.more));
        }
        text
    }

    pub(super) fn is_empty(&self) -> bool {
        self.items.is_empty() && self.more == 0
    }

    /// At most this many bytes of them; at least the number of those without a name.
    pub(super) fn within(&self, bytes_max: usize, sharing: Sharing) -> Self {
        let whole: usize = self.items.iter().map(|item| item.print().len()).sum();
        if whole + if self.more > 0 { MORE_BYTES_MAX } else { 0 } <= bytes_max {
            return self.clone();
        }
        let bytes_max = bytes_max.saturating_sub(MORE_BYTES_MAX);
        let named = self.named(bytes_max / 2);
        let more = self.more + self.items.len() - named.len();
        Self {
            items: share(named, bytes_max, sharing),
            more,
        }
    }

    /// The first ones, as many as can be named within this size.
    fn named(&self, bytes_max: usize) -> &[Excerpt] {
        let mut room = bytes_max;
        let fits = self
            .items
            .iter()
            .take(limits::STAGE_FILES_NAMED_MAX)
            .map_while(|item| {
                room = room.checked_sub(item.least())?;
                Some(())
            });
        &self.items[..fits.count()]
    }
}

/// All of these, with their texts cut to the room that their names leave.
fn share(items: &[Excerpt], bytes_max: usize, sharing: Sharing) -> Vec<Excerpt> {
    let names: usize = items.iter().map(Excerpt::least).sum();
    let room = bytes_max.saturating_sub(names);
    let level = match sharing {
        Sharing::Level => {
            let wanted = items.iter().map(|item| item.print().len() - item.least());
            budget::share(wanted.collect(), room).min(bytes_max)
        }
        Sharing::InOrder => 0,
    };
    let mut shared: Vec<Excerpt> = items
        .iter()
        .map(|item| item.within(item.least() + level))
        .collect();
    let mut left = bytes_max.saturating_sub(shared.iter().map(|item| item.print().len()).sum());
    for (cut, whole) in shared.iter_mut().zip(items) {
        let size = cut.print().len();
        *cut = whole.within(size + left);
        left = (left + size).saturating_sub(cut.print().len());
    }
    shared
}
