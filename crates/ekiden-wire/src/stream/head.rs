//! What a line is, by its first bytes.

/// What the beginning of a line shows.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Head<'a> {
    /// The first member is `type`.
    Typed {
        /// Its value.
        kind: &'a [u8],
        /// The value of `subtype`, if that comes next.
        subtype: Option<&'a [u8]>,
    },
    /// An object with another first member.
    Late,
    /// Nothing but white space.
    Blank,
    /// No object.
    NotAnObject,
}

/// Looks at the beginning of a line. Costs the same for any length.
pub(super) fn scan(line: &[u8]) -> Head<'_> {
    let line = line.trim_ascii_start();
    let Some(members) = line.strip_prefix(b"{") else {
        return if line.is_empty() { Head::Blank } else { Head::NotAnObject };
    };
    match text_member(members, b"type") {
        Some((kind, rest)) => {
            let subtype = after_comma(rest).and_then(|rest| text_member(rest, b"subtype"));
            Head::Typed { kind, subtype: subtype.map(|(value, _)| value) }
        }
        None => Head::Late,
    }
}

/// The id of a request of the client whose line cannot be read whole.
pub(super) fn request_id(head: &[u8]) -> Option<&[u8]> {
    let members = head.trim_ascii_start().strip_prefix(b"{")?;
    let (kind, rest) = text_member(members, b"type")?;
    let (id, _) = text_member(after_comma(rest)?, b"request_id")?;
    (kind == b"control_request").then_some(id)
}

/// The value of the member that comes next, if it has this name and is a plain text, and the rest.
fn text_member<'a>(members: &'a [u8], name: &[u8]) -> Option<(&'a [u8], &'a [u8])> {
    let rest = members.trim_ascii_start().strip_prefix(b"\"")?.strip_prefix(name)?.strip_prefix(b"\"")?;
    let value = rest.trim_ascii_start().strip_prefix(b":")?.trim_ascii_start().strip_prefix(b"\"")?;
    let end = memchr::memchr2(b'"', b'\\', value)?;
    (value[end] == b'"').then(|| (&value[..end], &value[end + 1..]))
}

fn after_comma(rest: &[u8]) -> Option<&[u8]> {
    rest.trim_ascii_start().strip_prefix(b",")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn typed<'a>(kind: &'a str, subtype: Option<&'a str>) -> Head<'a> {
        Head::Typed { kind: kind.as_bytes(), subtype: subtype.map(str::as_bytes) }
    }

    #[test]
    fn the_head_says_what_a_line_is() {
        assert_eq!(scan(br#"{"type":"assistant","message":"#), typed("assistant", None));
        assert_eq!(scan(br#" { "type" : "system" , "subtype" : "init" "#), typed("system", Some("init")));
        assert_eq!(scan(br#"{"duration_ms":3,"type":"result"}"#), Head::Late);
        assert_eq!(scan(br#"{"type":"a\u0062"}"#), Head::Late);
        assert_eq!(scan(b" \r"), Head::Blank);
        assert_eq!(scan(b"Warning: no such file"), Head::NotAnObject);
    }

    #[test]
    fn a_request_that_is_cut_off_still_has_its_id() {
        assert_eq!(request_id(br#"{"type":"control_request","request_id":"r1","requ"#), Some(&b"r1"[..]));
        assert_eq!(request_id(br#"{"type":"control_response","request_id":"r1""#), None);
    }
}
