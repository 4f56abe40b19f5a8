//! Estimates how much of a context window a task will take before it begins.
//!
//! The estimate is simple on purpose: the text of the task, the files it names, and a share for working with
//! them. A file counts more than once, since an agent reads it again while it edits, tests and reviews. Each
//! open item of a list counts as a separate piece of work. The caller reads the files, within bounds.

use serde::Serialize;

use crate::limits::BYTES_PER_TOKEN;
use crate::markdown;

/// A file is read, edited and looked at again.
const FILE_TIMES: u64 = 3;
/// The cost of one item of a plan besides the files: searching, running tests, reading their output.
const ITEM_TOKENS: u64 = 4_000;
/// The cost of any task: getting to know the project, and the answer.
pub(crate) const BASE_TOKENS: u64 = 6_000;
/// Below this share of the window a task is simply done.
pub(crate) const CONSIDER_PERCENT: u64 = 30;
/// Above this share it does not fit into the part of a session that works well.
const SHARD_PERCENT: u64 = 60;
/// Files that are looked up for a text.
const FILES_MAX: usize = 100;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Estimate {
    /// What doing it will take, in tokens.
    pub tokens: u64,
    /// Of that: the text itself.
    pub text_tokens: u64,
    /// Of that: files it names, counted as often as they are read.
    pub file_tokens: u64,
    /// The files that were found.
    pub files: u64,
    /// Open items of its lists.
    pub items: u64,
    /// The share of the whole usable window.
    pub percent: u64,
    /// What to do with a task of this size.
    pub advice: Advice,
    /// Whether it fits into what is left; none if that is unknown.
    pub fits: Option<bool>,
}

pub(crate) struct Parts {
    pub(crate) text_tokens: u64,
    /// Its files, read once.
    pub(crate) read_tokens: u64,
    pub(crate) files: u64,
    pub(crate) items: u64,
    pub(crate) window_tokens: u64,
    pub(crate) used_tokens: Option<u64>,
}

/// What to do with a task, by its share of a whole window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Advice {
    /// Under 30%: run it.
    Run,
    /// 30 to 60%: consider sharding.
    ConsiderSharding,
    /// Over 60%: shard first.
    ShardFirst,
}

impl Estimate {
    /// The estimate of a task. `file_bytes` are the sizes of the files it names, as far as they exist.
    /// `window_tokens` is the usable window, `used_tokens` the part in use, if that is known.
    pub fn of(
        task: &str,
        file_bytes: &[u64],
        window_tokens: u64,
        used_tokens: Option<u64>,
    ) -> Self {
        let per_token = BYTES_PER_TOKEN as u64;
        let read: u64 = file_bytes.iter().fold(0, |sum, bytes| {
            sum.saturating_add(bytes.div_ceil(per_token))
        });
        Self::from_parts(&Parts {
            text_tokens: (task.len() as u64).div_ceil(per_token),
            read_tokens: read,
            files: file_bytes.len() as u64,
            items: open_items(task),
            window_tokens,
            used_tokens,
        })
    }

    /// The same from parts that were counted before.
    pub(crate) fn from_parts(parts: &Parts) -> Self {
        let Parts {
            text_tokens,
            files,
            items,
            window_tokens,
            used_tokens,
            ..
        } = *parts;
        let file_tokens = parts.read_tokens.saturating_mul(FILE_TIMES);
        let parts = [
            text_tokens,
            file_tokens,
            items.saturating_mul(ITEM_TOKENS),
            BASE_TOKENS,
        ];
        let tokens = parts.into_iter().fold(0, u64::saturating_add);
        let percent = tokens.saturating_mul(100).div_ceil(window_tokens.max(1));
        let advice = match percent {
            0..CONSIDER_PERCENT => Advice::Run,
            CONSIDER_PERCENT..=SHARD_PERCENT => Advice::ConsiderSharding,
            _ => Advice::ShardFirst,
        };
        let fits = used_tokens.map(|used| tokens <= window_tokens.saturating_sub(used));
        Self {
            tokens,
            text_tokens,
            file_tokens,
            files,
            items,
            percent,
            advice,
            fits,
        }
    }

    /// A person's choices. Empty if the task is small and fits.
    pub fn choices(&self) -> &'static [&'static str] {
        match (self.advice, self.fits) {
            (Advice::Run, Some(true) | None) => &[],
            (Advice::Run, Some(false)) => &CHOICES[1..],
            (Advice::ConsiderSharding | Advice::ShardFirst, _) => &CHOICES,
        }
    }

    /// How many parts of under 30% of the window it would take.
    pub fn shards(&self) -> u64 {
        self.percent.div_ceil(CONSIDER_PERCENT - 1).max(1)
    }
}

const CHOICES: [&str; 3] = [
    "shard: split it into smaller tasks, each under 30% of the window",
    "checkpoint first: `ekiden checkpoint`, then begin it in a fresh session with `ekiden orient`",
    "proceed: do it in this session all the same",
];

/// Words of a text that may be file paths: with a `/` or a file extension. Each once, in their order.
pub fn named_files(task: &str) -> Vec<&str> {
    let mut files: Vec<&str> = Vec::new();
    for word in bare_words(task).filter(|word| is_path(word)) {
        if files.len() < FILES_MAX && !files.contains(&word) {
            files.push(word);
        }
    }
    files
}

/// The words of a text without what people write around a path.
pub(crate) fn bare_words(text: &str) -> impl Iterator<Item = &str> {
    let words = text.split(|c: char| c.is_whitespace() || "\"'`()<>[]{},;|*".contains(c));
    words.map(|word| {
        word.trim_start_matches('@')
            .trim_end_matches(['.', ':', '!', '?'])
    })
}

fn is_path(word: &str) -> bool {
    let name = word.rsplit('/').next().unwrap_or(word);
    let has_ending = name.rsplit_once('.').is_some_and(|(stem, ending)| {
        let letters = ending.bytes().all(|byte| byte.is_ascii_alphanumeric());
        let begins = ending
            .bytes()
            .next()
            .is_some_and(|byte| byte.is_ascii_alphabetic());
        !stem.is_empty() && letters && begins && ending.len() <= 8
    });
    let is_address = word.contains("://");
    !is_address
        && !word.starts_with('/')
        && (has_ending || (word.contains('/') && !name.is_empty()))
}

/// Open tick boxes, or the items of lists if there are none.
fn open_items(task: &str) -> u64 {
    items(&markdown::outline(task)).len() as u64
}

/// Where they begin, in order.
pub(crate) fn items(outline: &markdown::Outline) -> Vec<usize> {
    let ticks = || outline.leaves.iter().filter(|leaf| leaf.tick.is_some());
    if ticks().next().is_none() {
        let items = outline.blocks.iter().filter(|block| block.item);
        return items.map(|block| block.range.start).collect();
    }
    let open = ticks().filter(|leaf| leaf.tick == Some(false));
    let mut starts: Vec<usize> = open.map(|leaf| leaf.start).collect();
    starts.sort_unstable();
    starts
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A task of about this many tokens in a window of 100,000.
    fn sized(tokens: u64, used: Option<u64>) -> Estimate {
        Estimate::of(
            &"x".repeat(3 * (tokens - BASE_TOKENS) as usize),
            &[],
            100_000,
            used,
        )
    }

    // shows: EST-003
    #[test]
    fn the_share_of_the_window_decides() {
        let advice = |tokens| sized(tokens, None).advice;
        assert_eq!(advice(29_000), Advice::Run);
        assert_eq!(
            [advice(30_000), advice(60_000)],
            [Advice::ConsiderSharding; 2]
        );
        assert_eq!(advice(60_001), Advice::ShardFirst);
        assert_eq!(
            sized(70_000, None).shards(),
            3,
            "scenario 4: a spec of 70% makes three shards"
        );
    }

    // shows: EST-002
    #[test]
    fn scenario_3_a_task_of_half_the_window_at_55_percent() {
        let estimate = sized(50_000, Some(55_000));
        assert_eq!((estimate.percent, estimate.fits), (50, Some(false)));
        assert_eq!(estimate.choices(), &CHOICES);
        let small = sized(20_000, Some(90_000));
        assert_eq!(small.choices(), &CHOICES[1..]);
        assert!(sized(20_000, Some(10_000)).choices().is_empty());
    }

    // shows: EST-001
    #[test]
    fn text_files_and_items_count() {
        let task = "Port it.\n\n- [x] lexer\n- [ ] parser\n- [ ] printer\n";
        let estimate = Estimate::of(task, &[3_000, 6_000], 200_000, None);
        assert_eq!((estimate.items, estimate.files), (2, 2));
        assert_eq!(estimate.file_tokens, 3 * 3_000);
        assert_eq!(
            estimate.tokens,
            estimate.text_tokens + 9_000 + 2 * ITEM_TOKENS + BASE_TOKENS
        );
        assert_eq!(Estimate::of("1. a\n2. b\n", &[], 1, None).items, 2);
    }

    // shows: EST-001
    #[test]
    fn files_are_found_by_their_form() {
        let task = "Port `src/lexer.rs` and @docs/spec.md, see (Cargo.toml); not 1.5 or v2.0, nor \
                    https://x.y/z.html. Again src/lexer.rs, the crates/core directory.";
        assert_eq!(
            named_files(task),
            ["src/lexer.rs", "docs/spec.md", "Cargo.toml", "crates/core"]
        );
    }

    proptest! {
        #[test]
        fn no_task_is_too_odd(task in any::<String>(), bytes in proptest::collection::vec(any::<u64>(), 0..4), window in any::<u64>(), used in any::<Option<u64>>()) {
            let estimate = Estimate::of(&task, &bytes, window, used);
            prop_assert!(estimate.tokens >= BASE_TOKENS && estimate.shards() >= 1);
            prop_assert!(named_files(&task).len() <= FILES_MAX);
        }
    }
}
