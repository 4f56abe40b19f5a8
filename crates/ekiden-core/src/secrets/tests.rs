//! Masking, held against two lists of invented cases.
//!
//! `fixtures/secrets` holds a case on each line: with a secret between `«` and `»`, or harmless. Nothing in the files is
//! shaped like a token: `{a36}` becomes 36 characters here, by the alphabet that the letter names, `{-}` five dashes,
//! `⏎` a line end and `␛` an escape.

use proptest::prelude::*;

use super::*;

const SECRETS: &str = include_str!("../../fixtures/secrets/secrets.txt");
const HARMLESS: &str = include_str!("../../fixtures/secrets/harmless.txt");

const LOWER: &str = "abcdefghijklmnopqrstuvwxyz";
const UPPER: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZ";

/// The characters that a letter stands for.
fn alphabet(letter: char) -> String {
    let both = format!("{LOWER}{UPPER}");
    match letter {
        'a' => format!("{both}0123456789"),
        'b' => format!("{both}0123456789-_"),
        's' => format!("{both}0123456789+/"),
        'h' => "0123456789abcdef".to_owned(),
        'd' => "123456789".to_owned(),
        'u' => format!("{UPPER}234567"),
        'l' => format!("{LOWER}0123456789"),
        'p' | 'q' => format!("{both}0123456789!#%*+?^~_-"),
        other => panic!("no alphabet `{other}`"),
    }
}

/// So many characters of an alphabet, the same for the same seed. A password has a digit and begins with a letter.
fn characters(letter: char, count: usize, seed: &mut u64) -> String {
    let alphabet: Vec<char> = alphabet(letter).chars().collect();
    let mut draw = || {
        *seed = seed
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        alphabet[usize::try_from(*seed >> 33).unwrap() % alphabet.len()]
    };
    let drawn: String = (0..count).map(|_| draw()).collect();
    match letter {
        'p' if count > 3 => format!("K{}7", &drawn[2..]),
        _ => drawn,
    }
}

/// The case as it would be read.
fn expanded(line: &str, mut seed: u64) -> String {
    let mut text = String::new();
    let mut rest = line;
    while let Some((before, after)) = rest.split_once('{') {
        text.push_str(before);
        let field = after.split_once('}').and_then(|(field, after)| {
            let count: usize = field.get(1..)?.parse().ok()?;
            Some((field.chars().next()?, count, after))
        });
        rest = match (after.strip_prefix("-}"), field) {
            (Some(after), _) => {
                text.push_str("-----");
                after
            }
            (None, Some((letter, count, after))) => {
                text.push_str(&characters(letter, count, &mut seed));
                after
            }
            (None, None) => {
                text.push('{');
                after
            }
        };
    }
    (text + rest).replace('⏎', "\n").replace('␛', "\u{1b}")
}

/// Each case with the seed of its place.
fn cases(list: &'static str) -> impl Iterator<Item = String> {
    let lines = list.lines().zip(1_u64..);
    lines.map(|(line, number)| expanded(line, number * 7919))
}

/// Nothing but the secrets is masked. The kind does not matter here.
fn is_masked_right(case: &str) -> bool {
    let text = case.replace(['«', '»'], "");
    let masked = mask(&text);
    let mut rest = masked.as_ref();
    case.split('«').enumerate().all(|(part, piece)| {
        let (secret, plain) = piece.split_once('»').unwrap_or(("", piece));
        if part > 0 {
            let kind = rest
                .strip_prefix(MASK)
                .and_then(|rest| rest.split_once(']'));
            let Some((_, after)) = kind else { return false };
            rest = after;
        }
        let after = rest.strip_prefix(plain);
        rest = after.unwrap_or(rest);
        after.is_some() && (part == 0 || !secret.is_empty())
    }) && rest.is_empty()
}

/// The cases that went wrong, each with what was made of it.
fn assert_none(wrong: &[String], all: usize) {
    assert!(all >= 300, "{all} cases");
    let texts = wrong.iter().map(|case| {
        let text = case.replace(['«', '»'], "");
        format!("{case}\n    as: {}\n", mask(&text))
    });
    assert!(
        wrong.is_empty(),
        "{} of {all}:\n{}",
        wrong.len(),
        texts.collect::<String>()
    );
}

// shows: MEM-12
#[test]
fn secrets_are_found() {
    let missed: Vec<String> = cases(SECRETS)
        .filter(|case| !is_masked_right(case))
        .collect();
    assert_none(&missed, cases(SECRETS).count());
}

// shows: MEM-12
#[test]
fn what_is_harmless_is_left_alone() {
    let masked: Vec<String> = cases(HARMLESS)
        .filter(|case| mask(case) != case.as_str())
        .collect();
    assert_none(&masked, cases(HARMLESS).count());
}

/// A text is cut at its front before it is masked: the last lines of an output, or of what an agent said.
// shows: MEM-12
#[test]
fn what_is_left_of_a_key_whose_beginning_was_cut_off_is_masked() {
    let lines = [
        "VGhpcyBpcyBub3QgYSBrZXku/Q4XcQ+",
        "c2Vjb25kIGxpbmUgb2YgdGhlIGtleQ0K",
        "dGhpcmQ=",
    ];
    for between in ["\n", "\r\n", "\\n", "\\r\\n", "\",\n  \"", "\n+"] {
        for mark in [
            "PRIVATE KEY",
            "OPENSSH PRIVATE KEY",
            "PGP PRIVATE KEY BLOCK",
        ] {
            let text = format!(
                "the log says:{between}{}{between}-----END {mark}-----{between}done",
                lines.join(between)
            );
            let masked = mask(&text);
            let left = lines.iter().filter(|line| masked.contains(**line));
            assert_eq!(left.count(), 0, "{masked}");
            assert!(
                masked.starts_with("the log says:") && masked.ends_with("done"),
                "{masked}"
            );
        }
    }
    let words = "the words of a person who explains\n-----END PRIVATE KEY-----";
    assert_eq!(mask(words), words);
    let public = format!("{}\n-----END CERTIFICATE-----", lines.join("\n"));
    assert_eq!(mask(&public), public);
}

/// Texts put together from what rules look for, so that masks and secrets meet in every way.
fn hostile() -> impl Strategy<Value = String> {
    let rules = RULES.rules.iter();
    let starts: Vec<String> = rules
        .flat_map(|rule| &rule.starts)
        .map(|start| (*start).to_owned())
        .collect();
    let piece = prop_oneof![
        proptest::sample::select(starts),
        "[A-Za-z0-9]{1,50}",
        "[=:@/\"'\\\\ \n.,;(){}<>$-]{1,3}",
        "PRIVATE KEY-----\n[A-Za-z0-9+/]{16,70}\n|\\[masked: (password|token|x)\\]|…|\\\\n|Bearer ",
        ".{0,3}",
    ];
    prop::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    // shows: MEM-12
    #[test]
    fn masking_twice_changes_nothing_more(text in hostile()) {
        let once = mask(&text);
        prop_assert_eq!(mask(&once), once.as_ref(), "of {:?}", text);
    }

    // shows: MEM-12
    #[test]
    fn lines_stay_lines_and_json_stays_json(text in hostile(), more in hostile()) {
        prop_assert_eq!(mask(&text).matches('\n').count(), text.matches('\n').count());
        let json = serde_json::json!({ "text": text, more: [1, "x"] }).to_string();
        prop_assert!(serde_json::from_str::<serde_json::Value>(&mask(&json)).is_ok(), "{}", mask(&json));
    }

    #[test]
    fn what_is_not_utf_8_is_masked_and_else_stays(text in hostile(), bytes in any::<Vec<u8>>()) {
        let whole = mask(&text);
        prop_assert_eq!(mask_bytes(text.as_bytes()).into_owned(), whole.as_bytes());
        let broken = [b"\xff", text.as_bytes(), b"\xfe", &bytes].concat();
        let masked = mask_bytes(&broken);
        prop_assert!(masked.starts_with(&[b"\xff", whole.as_bytes()].concat()));
    }
}

#[test]
fn every_pattern_is_one() {
    assert!(RULES.rules.len() > 60);
    for rule in &RULES.rules {
        assert!(
            !rule.starts.is_empty() && rule.starts.iter().all(|start| start.len() > 1),
            "{}",
            rule.kind
        );
        rule.pattern();
    }
}

/// Each text is what one rule looks at for as long as it may, again and again. With a rule that looked on to the end, this takes
/// minutes.
// shows: MEM-12
#[test]
fn a_hostile_text_takes_its_length_in_time() {
    let far = "a".repeat(190);
    for piece in [
        "password=",
        "token: ",
        "://a:",
        "--",
        "-----BEGIN PRIVATE KEY-----\n",
        "eyJa.",
        "eyJ-",
        "sk-",
        "glpat-",
        "hvs.-",
        "fm2_=",
        "-----END PRIVATE KEY-----\n",
        "QUJDREVGR0hJSktMTU5P\n-----END PRIVATE",
        "[masked: ",
        "]ghp_",
        "authorization:",
        "bearer a1B2",
        "curl -u a:",
        "login a b\t",
        "…",
        "\\\\\"pwd\\\\\":",
        &format!("token={far}"),
        &format!("://{far}:"),
        &format!("eyJ{far}."),
        &format!("ghp_{far}-"),
    ] {
        let text = piece.repeat(300_000 / piece.len());
        assert!(mask(&text).len() < 100 * text.len(), "{piece}");
    }
}
