//! The difference between two texts, as `diff -u` shows it.

use diffy::{DiffOptions, PatchFormatter};

/// The changes from the old to the new text, with this many unchanged lines around each; empty if nothing
/// changes. A missing newline at the end of a text is not shown.
pub fn unified(names: [&str; 2], texts: [&str; 2], context_lines: usize) -> String {
    let ([old_name, new_name], [old, new]) = (names, texts);
    let mut options = DiffOptions::new();
    options.set_context_len(context_lines);
    options
        .set_original_filename(old_name.to_owned())
        .set_modified_filename(new_name.to_owned());
    let patch = options.create_patch(old, new);
    if patch.hunks().is_empty() {
        return String::new();
    }
    PatchFormatter::new()
        .missing_newline_message(false)
        .fmt_patch(&patch)
        .to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_shown_with_its_surroundings() {
        let text = unified(
            ["a file", "/dev/null"],
            ["1\n2\n3\n4\n5", "1\n2\n3\nfour\n5"],
            1,
        );
        expect_test::expect![[r"
            --- a file
            +++ /dev/null
            @@ -3,3 +3,3 @@
             3
            -4
            +four
             5
        "]]
        .assert_eq(&(text.trim_end().to_owned() + "\n"));
        assert_eq!(unified(["a", "b"], ["same\n", "same\n"], 3), "");
    }
}
