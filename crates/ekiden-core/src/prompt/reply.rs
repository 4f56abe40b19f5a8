//! The JSON object in a model's reply, when it came with a fence or with words around it.

/// Objects that are tried before a reply is given up: each costs a walk to its end.
const TRIES_MAX: usize = 256;

/// The object in the reply: the largest one in a fence for JSON, else in any fence, else anywhere.
/// Braces are counted outside strings; whether it is valid JSON is for the reader of it to say, who
/// can name the place of a fault.
#[must_use]
pub fn extract_json(reply: &str) -> Option<&str> {
    let fences = fences(reply);
    let json = fences.iter().filter(|fence| fence.json).filter_map(|fence| largest(fence.body));
    let any = fences.iter().filter_map(|fence| largest(fence.body));
    longest(json).or_else(|| longest(any)).or_else(|| largest(reply))
}

struct Fence<'a> {
    json: bool,
    body: &'a str,
}

/// What stands in fences of backticks. One that is not closed reaches to the end.
fn fences(reply: &str) -> Vec<Fence<'_>> {
    let mut fences = Vec::new();
    let mut open: Option<(bool, usize)> = None;
    let mut at = 0;
    for line in reply.split_inclusive('\n') {
        let end = at + line.len();
        if let Some(info) = line.trim_start().strip_prefix("```") {
            match open.take() {
                Some((json, begin)) => fences.push(Fence { json, body: &reply[begin..at] }),
                None => open = Some((is_json(info), end)),
            }
        }
        at = end;
    }
    fences.extend(open.map(|(json, begin)| Fence { json, body: &reply[begin..] }));
    fences
}

fn is_json(info: &str) -> bool {
    let info = info.trim_start_matches('`').trim().to_lowercase();
    info.split_whitespace().next().is_some_and(|word| word.starts_with("json"))
}

fn longest<'a>(objects: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    // The first of equals.
    objects.fold(None, |best, object| match best {
        Some(longest) if object.len() <= str::len(longest) => Some(longest),
        Some(_) | None => Some(object),
    })
}

/// The largest object that is in no other.
fn largest(text: &str) -> Option<&str> {
    let mut best: Option<&str> = None;
    let mut from = 0;
    for _ in 0..TRIES_MAX {
        let Some(begin) = text[from..].find('{').map(|at| from + at) else { break };
        match end_of_object(&text[begin..]) {
            Some(length) => {
                best = longest(best.into_iter().chain([&text[begin..begin + length]]));
                from = begin + length;
            }
            None => from = begin + 1,
        }
    }
    best
}

/// How long the object is that begins here; `None` if it never ends.
fn end_of_object(text: &str) -> Option<usize> {
    let (mut depth, mut string, mut escaped) = (0_usize, false, false);
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if string => escaped = true,
            b'"' => string = !string,
            b'{' if !string => depth += 1,
            b'}' if !string => {
                depth -= 1;
                if depth == 0 {
                    return Some(at + 1);
                }
            }
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    // shows: PLN-07
    #[test]
    fn the_object_is_found_in_fences_and_among_words() {
        let cases = [
            ("{\"a\": 1}", Some("{\"a\": 1}")),
            ("Here it is {x}:\n\n{\"a\": {\"b\": \"}\"}} and that is all.", Some("{\"a\": {\"b\": \"}\"}}")),
            ("```json\n{\"a\": 1}\n```\nlonger: {\"aaaaaaaaaaaaaaaa\": 2}", Some("{\"a\": 1}")),
            ("```sh\necho {}\n```\n```JSON title\n{\"a\": \"```\"}\n```", Some("{\"a\": \"```\"}")),
            ("```\n{\"a\": 1}\n```", Some("{\"a\": 1}")),
            ("~~~\n{\"a\": \"\\\"}\"}\n~~~", Some("{\"a\": \"\\\"}\"}")),
            ("an open { and then {\"a\": 1}", Some("{\"a\": 1}")),
            ("```json\n{\"a\": 1}", Some("{\"a\": 1}")),
            ("{\"a\": [1, }", Some("{\"a\": [1, }")),
            ("no object", None),
            ("{\"a\": 1", None),
        ];
        for (reply, object) in cases {
            assert_eq!(extract_json(reply), object, "{reply}");
        }
    }

    #[test]
    fn many_braces_are_given_up() {
        assert_eq!(extract_json(&"{".repeat(1_000_000)), None);
        assert_eq!(extract_json(&"{\"".repeat(500_000)), None);
    }

    proptest! {
        // shows: PLN-07
        #[test]
        fn an_object_is_found_in_whatever_fence_and_words(
            before in "[^{`]{0,40}", after in "\\PC{0,40}", keys in proptest::collection::vec(any::<String>(), 0..5),
        ) {
            let object: serde_json::Map<String, serde_json::Value> =
                keys.into_iter().map(|key| (key.clone(), serde_json::json!({ "text": key }))).collect();
            let object = serde_json::to_string_pretty(&object).unwrap();
            let reply = format!("{before}\n```json\n{object}\n```\n{after}");
            prop_assert_eq!(extract_json(&reply), Some(object.as_str()));
        }

        // shows: PLN-07
        #[test]
        fn any_reply_is_read(reply in any::<String>(), pieces in proptest::collection::vec("[{}\"\\\\`\nä]{0,8}", 0..20)) {
            for text in [reply, pieces.concat()] {
                let found = extract_json(&text);
                let whole = found.is_none_or(|object| object.starts_with('{') && object.ends_with('}'));
                prop_assert!(whole, "{:?}", found);
            }
        }
    }
}
