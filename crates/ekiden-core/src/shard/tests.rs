//! What a split keeps, over generated documents; and how a few of our own are split.

use std::fmt::Write as _;

use expect_test::expect_file;
use proptest::prelude::*;

use super::*;

const WINDOW_TOKENS: u64 = 100_000;

fn split(text: &str, split: Split) -> Shards {
    let spec = Spec {
        text,
        file_bytes: &BTreeMap::new(),
        window_tokens: WINDOW_TOKENS,
    };
    Shards::of(&spec, split)
}

/// Blocks that must stay whole, some of which look like something else inside.
fn block() -> impl Strategy<Value = String> {
    prop_oneof![
        (1usize..5, 0u8..30).prop_map(|(level, n)| format!("{} Part {n} of it\n\n", "#".repeat(level))),
        (1usize..400).prop_map(|size| format!("{}\n\n", "word ".repeat(size).trim_end())),
        (0u8..9).prop_map(|n| format!("```sh\n# no heading\n\n- [ ] no item {n}\n\n```\n\n")),
        (1usize..9).prop_map(|rows| format!("| a | b |\n|---|---|\n{}\n", "| 1 | 2 |\n".repeat(rows))),
        (1usize..9).prop_map(|items| "- [ ] do it\n\n  more of it\n  - below\n".repeat(items) + "\n"),
        Just("1. one\n2. two\n\n".to_owned()),
        Just("See Part 3 of it. It depends on Part 4 of it, before Part 5 of it; see section 2, `src/a.rs`.\n\n".to_owned()),
        Just("Then see src/lib.rs.\r\n\r\n".to_owned()),
        Just("> ## quoted\n> - [ ] no\n\n".to_owned()),
    ]
}

fn document() -> impl Strategy<Value = (String, Vec<Range<usize>>)> {
    proptest::collection::vec(block(), 0..40).prop_map(|blocks| {
        let mut text = String::new();
        let whole = blocks.iter().map(|block| {
            let start = text.len();
            text.push_str(block);
            start..start + block.trim_end().len()
        });
        let whole = whole.collect();
        (text, whole)
    })
}

fn how() -> impl Strategy<Value = Split> {
    prop_oneof![
        (1usize..9).prop_map(Split::Into),
        (5u64..90).prop_map(Split::Max)
    ]
}

/// An item of a list may begin another shard.
fn is_list(block: &str) -> bool {
    ["- ", "1. ", "2. "]
        .iter()
        .any(|mark| block.starts_with(mark))
}

proptest! {
    // shows: SHD-001
    #[test]
    fn every_line_is_in_one_part_and_no_block_is_cut((text, blocks) in document(), how in how()) {
        let shards = split(&text, how);
        let mut end = shards.head.end;
        for shard in &shards.shards {
            prop_assert_eq!(shard.range.start, end);
            prop_assert!(end == 0 || text.as_bytes()[end - 1] == b'\n');
            end = shard.range.end;
            prop_assert!(!shard.title.trim().is_empty());
        }
        prop_assert_eq!(end, text.len());
        for block in blocks {
            let inner: Vec<usize> = (shards.shards.iter())
                .map(|shard| shard.range.start)
                .filter(|start| block.start < *start && *start < block.end)
                .collect();
            for start in inner {
                prop_assert!(is_list(&text[block.clone()]), "{:?}", &text[block]);
                prop_assert!(is_list(&text[start..]), "{:?}", &text[start..]);
            }
        }
        prop_assert_eq!(shards, split(&text, how), "the same text gives the same shards");
    }

    // shows: SHD-001
    #[test]
    fn nothing_waits_for_itself((text, _) in document(), how in how()) {
        let shards = split(&text, how).shards;
        let place = |id: &str| shards.iter().position(|shard| shard.id == id).unwrap();
        let needs = shards.iter().map(|shard| shard.needs.iter().map(|need| place(&need.id)).collect());
        let graph = crate::manifest::graph::Graph::new(needs.collect());
        prop_assert!(graph.order().is_some());
    }

    // shows: SHD-001
    #[test]
    fn the_largest_is_near_the_mean_where_headings_allow_it((text, _) in document()) {
        let spec = Spec { text: &text, file_bytes: &BTreeMap::new(), window_tokens: WINDOW_TOKENS };
        let pieces = Pieces::of(&spec);
        let even = |starts: &[usize]| {
            let tokens: Vec<u64> = starts.windows(2).map(|range| pieces.estimate(range[0]..range[1]).tokens).collect();
            let mean = tokens.iter().sum::<u64>() / tokens.len() as u64;
            tokens.iter().max().is_some_and(|largest| largest * 10 <= mean * 13 + 10)
        };
        let cuts: Vec<usize> = (1..pieces.len()).filter(|piece| pieces.cost(*piece) < 10).collect();
        let allowed = cuts.iter().any(|one| cuts.iter().any(|two| one < two && even(&[0, *one, *two, pieces.len()])));
        let starts = cuts::starts(&pieces, Split::Into(3));
        if allowed {
            prop_assert!(even(&starts), "{starts:?} of {}", pieces.len());
        }
    }

    #[test]
    fn no_text_is_too_odd(text in any::<String>(), how in how()) {
        let shards = split(&text, how);
        prop_assert_eq!(shards.shards.last().map(|shard| shard.range.end), Some(text.len()));
    }
}

fn table(name: &str, text: &str) -> String {
    let shards = split(text, Split::Max(MAX_PERCENT));
    let mut table = format!(
        "{name}: {}%, head of {} bytes\n",
        shards.whole.percent, shards.head.end
    );
    for Shard {
        id,
        title,
        lines,
        estimate,
        needs,
        ..
    } in &shards.shards
    {
        let needs: Vec<String> = needs
            .iter()
            .map(|need| format!("{} ({})", need.id, need.why.in_words()))
            .collect();
        let needs = needs.join(", ");
        writeln!(
            table,
            "  {id} {title} | {}-{} | {}% | {needs}",
            lines.0, lines.1, estimate.percent
        )
        .unwrap();
    }
    table
}

// shows: SHD-001
#[test]
fn documents_of_our_own_are_split_along_their_headings_and_lists() {
    let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/src/shard/fixtures");
    let mut files: Vec<_> = std::fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    files.retain(|file| file.extension().is_some_and(|ending| ending == "md"));
    files.sort();
    let tables = files.iter().map(|file| {
        table(
            file.file_name().unwrap().to_str().unwrap(),
            &std::fs::read_to_string(file).unwrap(),
        )
    });
    expect_file!["fixtures/tables.txt"].assert_eq(&tables.collect::<Vec<_>>().join("\n"));
}

// shows: SHD-001
#[test]
fn what_the_text_says_of_order_becomes_needs() {
    let filler = "Words of the section. ".repeat(400);
    let text = format!(
        "# Shop\n\nIn short.\n\n## 1. Storage\n\nTables. {filler}\n\n## 2. Page\n\nIt needs the Query section first; see section 1. {filler}\n\n\
         ## 3. Query\n\nThen src/query.rs reads them. {filler}\n\n## 4. Report\n\nsrc/query.rs again, before Mail. {filler}\n\n## 5. Mail\n\nNo more. {filler}\n"
    );
    let shards = split(&text, Split::Into(5)).shards;
    let needs: Vec<String> = (shards.iter())
        .flat_map(|shard| {
            shard
                .needs
                .iter()
                .map(|need| format!("{} {} {}", shard.id, need.id, need.why.in_words()))
        })
        .collect();
    assert_eq!(
        needs,
        [
            "S02 S01 names \u{201c}1. Storage\u{201d}",
            "S03 S02 \u{201c}then\u{201d}",
            "S04 S03 src/query.rs",
            "S05 S04 names \u{201c}5. Mail\u{201d}",
        ],
        "S02 needs S03 as well, but S03 already waits for S02"
    );
}

// shows: SHD-001
#[test]
fn a_part_is_quoted_whole_or_put_into_a_file() {
    let text = "# Shop\n\nIn short.\n\n## Till\n\nSmall.\n\n## Mill\n\nSee section \"Till\".\n";
    let shards = split(text, Split::Into(2));
    let prompt = shards.prompt(text, 1, "shop.md", "plan.parts/S02.md");
    assert_eq!(
        prompt.text,
        "Do part 2 of 2 of shop.md: Mill. It stands below, whole. Do all of it, and leave these parts to other \
         sessions:\n- S01: Till (done, you build on it)\n\nThe document begins, for all parts:\n\n# Shop\n\nIn \
         short.\n\nYour part:\n\n## Mill\n\nSee section \"Till\".\n"
    );
    let long = text.replace("Small.", &"Long. ".repeat(2_000));
    let shards = split(&long, Split::Into(2));
    let prompt = shards.prompt(&long, 0, "shop.md", "plan.parts/S01.md");
    assert!(tokens(&prompt.text) < 200, "{}", prompt.text);
    let file = prompt.file.unwrap();
    assert!(file.starts_with("# Shop\n\nIn short.\n\n## Till\n\nLong."));
    assert_eq!(file.len(), shards.shards[0].range.end);
    let alone = split(text, Split::Into(1)).prompt(text, 0, "shop.md", "");
    assert!(
        alone.text.contains(" Do all of it.\n\nThe document begins"),
        "{}",
        alone.text
    );
}

// shows: SHD-002
#[test]
fn a_document_of_70_percent_is_suggested_as_three_shards() {
    let large = |items: usize| {
        let items: String = (0..items).map(|n| format!("- [ ] item {n}\n")).collect();
        let text = format!("# Shop\n\n{items}");
        LargeSpec::of(
            "the shop.md",
            &Spec {
                text: &text,
                file_bytes: &BTreeMap::new(),
                window_tokens: 167_000,
            },
        )
    };
    expect_test::expect![[r#"
        the shop.md may take about 71% of the usable window. Shard it first, into 3 parts:
          S01  item 0   28%  lines 3-12
          S02  item 10  26%  lines 13-21  needs S01 (the same section)
          S03  item 19  26%  lines 22-30  needs S02 (the same section)
        `ekiden shard 'the shop.md' -o plan.toml` writes them as a plan, `ekiden shard 'the shop.md' --issues ISSUE` makes sub-issues of them."#]]
    .assert_eq(&large(28).unwrap().suggestion());
    assert_eq!(large(23), None, "at most 60%");
}

// shows: SHD-001
#[test]
fn many_short_sections_are_parts_as_even_as_a_few() {
    for (mark, count) in [("# ", 301), ("## ", 320), ("## ", 700), ("", 400)] {
        let part = |n| format!("{mark}Part {n}\n\n{}\n\n", "word ".repeat(200));
        let text: String = (0..count).map(part).collect();
        let shards = split(&text, Split::Max(MAX_PERCENT)).shards;
        let most = shards.iter().map(|shard| shard.estimate.percent).max();
        assert!(
            shards.len() > 1 && most <= Some(MAX_PERCENT),
            "{count} of {mark}: {most:?} in {}",
            shards.len()
        );
    }
}

// shows: SHD-001
#[test]
fn code_below_an_item_stays_with_that_item() {
    let items = [
        "- [x] one\n\n```sh\nmake one\n```\n",
        "- [ ] two\n~~~\nmake two\n~~~\n",
        "- [ ] three\n",
    ];
    let shards = split(&format!("# T\n\n{}", items.concat()), Split::Into(3)).shards;
    let titles: Vec<&str> = shards.iter().map(|shard| &*shard.title).collect();
    assert_eq!(titles, ["one", "two", "three"]);
}

// shows: SHD-001
#[test]
fn numbered_steps_need_each_other_and_numbered_chapters_do_not() {
    for (word, waits) in [
        ("Step", true),
        ("Phase", true),
        ("Chapter", false),
        ("Part", false),
    ] {
        let text: String = (1..4)
            .map(|n| format!("# {word} {n}\n\nWords.\n\n"))
            .collect();
        let shards = split(&text, Split::Into(3)).shards;
        let all = shards.iter().skip(1).all(|shard| !shard.needs.is_empty());
        let none = shards.iter().all(|shard| shard.needs.is_empty());
        assert!(if waits { all } else { none }, "{word}");
    }
}

// shows: SHD-001
#[test]
fn a_planners_answer_changes_names_and_needs_or_nothing() {
    let text = "# T\n\n## One\n\nwords\n\n## Two\n\nwords\n\n## Three\n\nwords\n";
    let spec = Spec {
        text,
        file_bytes: &BTreeMap::new(),
        window_tokens: 100_000,
    };
    let shards = Shards::of(&spec, Split::Into(3));
    let refused = |parts: &str| {
        let mut same = shards.clone();
        let fault = same
            .refine(&format!("{{\"parts\": [{parts}]}}"))
            .unwrap_err();
        assert_eq!(same, shards);
        fault
    };
    let part = |id: &str, needs: &str| {
        format!(r#"{{"id":"{id}","title":"Make\n{id}","needs":[{needs}]}}"#)
    };
    let all = |first: &str, second: &str| {
        [part("S01", first), part("S02", second), part("S03", "")].join(",")
    };
    assert_eq!(refused(&part("S01", "")), "part S02 is missing");
    let extra = format!("{},{}", all("", ""), part("S09", ""));
    assert_eq!(refused(&extra), "there are 3 parts, not 4");
    assert_eq!(
        refused(&all("\"S7\"", "")),
        "part S01 needs S7, which is no part"
    );
    let circle = "these parts wait for each other: S01, S02";
    assert_eq!(refused(&all("\"S02\"", "\"S01\"")), circle);
    let mut refined = shards.clone();
    let answer = all("\"S03\"", "\"S01\"");
    refined
        .refine(&format!("{{\"parts\": [{answer}]}}"))
        .unwrap();
    assert_eq!(refined.shards[0].title, "Make S01");
    assert_eq!(
        refined.shards[0].needs_in_words(),
        "needs S03 (the planner)"
    );
    assert_eq!(refined.shards[2].range, shards.shards[2].range);
}
