//! A line of shell as its commands, as far as permission rules can judge it.

/// Redirections that touch no file.
const HARMLESS: [&str; 8] = [
    "2>&1",
    "1>&2",
    ">&2",
    ">/dev/null",
    "> /dev/null",
    "2>/dev/null",
    "2> /dev/null",
    "&>/dev/null",
];

/// What `&&`, `||`, `;`, `|`, `&` and line breaks join.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct ShellLine {
    pub(crate) commands: Vec<String>,
    /// The line does more: it substitutes, redirects, groups or comments, a quote is open, or it has white space that
    /// separates no words.
    pub(crate) does_more: bool,
}

impl ShellLine {
    pub(crate) fn of(line: &str) -> Self {
        // A shell takes other white space for letters.
        let is_odd = |c: char| c.is_whitespace() && !" \t\n".contains(c);
        let mut split = Self {
            does_more: line.contains(is_odd),
            ..Self::default()
        };
        let (mut command, mut quote, mut rest) = (String::new(), None, line);
        while let Some(c) = rest.chars().next() {
            let begins_word = quote.is_none() && !command.ends_with(|c: char| !c.is_whitespace());
            if let Some(after) = harmless(rest).filter(|_| begins_word) {
                rest = after;
                continue;
            }
            // An escaped character stands for itself.
            let len = match c == '\\' && quote != Some('\'') {
                true => 1 + rest[1..].chars().next().map_or(0, char::len_utf8),
                false => c.len_utf8(),
            };
            let (piece, after) = rest.split_at(len);
            match (quote, c) {
                (None, '&' | '|' | ';' | '\n') => split.take(&mut command),
                (None | Some('"'), '$' | '`') | (None, '(' | ')') => {
                    split.does_more = true;
                    command.push_str(rest);
                    break;
                }
                (None, '#') if begins_word => {
                    split.does_more = true;
                    break;
                }
                (None, '\'' | '"') => {
                    quote = Some(c);
                    command.push(c);
                }
                (Some(open), _) if open == c => {
                    quote = None;
                    command.push(c);
                }
                (None | Some(_), _) => {
                    split.does_more |= quote.is_none() && matches!(c, '<' | '>');
                    command.push_str(piece);
                }
            }
            rest = after;
        }
        split.does_more |= quote.is_some();
        split.take(&mut command);
        split
    }

    fn take(&mut self, command: &mut String) {
        let whole = std::mem::take(command);
        self.commands.extend(
            Some(whole.trim())
                .filter(|one| !one.is_empty())
                .map(str::to_owned),
        );
    }
}

/// What follows a redirection that touches no file.
fn harmless(rest: &str) -> Option<&str> {
    let mut after = HARMLESS.iter().filter_map(|one| rest.strip_prefix(one));
    after.find(|after| {
        after.is_empty() || after.starts_with(|c: char| c.is_whitespace() || "&|;".contains(c))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    // shows: AGT-15
    #[test]
    fn a_line_is_split_where_the_shell_does() {
        for (line, commands) in [
            ("make", &["make"][..]),
            (
                "cd a && make -j2|| ls;\n pwd &",
                &["cd a", "make -j2", "ls", "pwd"],
            ),
            ("make 2>&1 | tail -2 2>/dev/null", &["make", "tail -2"]),
            ("make > /dev/null; ls >&2", &["make", "ls"]),
            (
                r#"grep 'a && b' "c;d" e\;f"#,
                &[r#"grep 'a && b' "c;d" e\;f"#],
            ),
            (
                r#"echo "a\"; b" it\'s; ls"#,
                &[r#"echo "a\"; b" it\'s"#, "ls"],
            ),
            ("echo 'a\\'; ls '$(x)'", &["echo 'a\\'", "ls '$(x)'"]),
            ("make a#b", &["make a#b"]),
            (" ; ", &[]),
        ] {
            let split = ShellLine::of(line);
            assert_eq!(split.commands, commands, "{line}");
            assert!(!split.does_more, "{line}");
        }
    }

    // shows: AGT-15
    #[test]
    fn what_does_more_than_its_commands_say_is_known() {
        for (line, commands) in [
            ("make $(sh; x)", &["make $(sh; x)"][..]),
            ("ls; make \"`sh`\"; ls", &["ls", "make \"`sh`\"; ls"]),
            ("make > a; ls", &["make > a", "ls"]),
            ("make 2>&1x", &["make 2>", "1x"]),
            ("make 2>/dev/nullx", &["make 2>/dev/nullx"]),
            ("(make; ls)", &["(make; ls)"]),
            // In a comment, a quote does not hide the next line.
            ("make # don't\nrm -rf /", &["make"]),
            ("make 'a; ls", &["make 'a; ls"]),
            ("cat <<E\nls\nE", &["cat <<E", "ls", "E"]),
            ("echo a >&2\u{a0}/../../x", &["echo a \u{a0}/../../x"]),
            ("\u{a0}echo a", &["echo a"]),
            ("make >/dev/null\rx", &["make \rx"]),
        ] {
            let split = ShellLine::of(line);
            assert!(split.does_more, "{line}");
            assert_eq!(split.commands, commands, "{line}");
        }
    }
}
