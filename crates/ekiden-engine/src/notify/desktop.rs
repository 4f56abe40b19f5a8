//! Desktop notifications: `notify-send` on Linux, `osascript` on macOS.
//!
//! There is no shell, and no text can become an option, markup or a script: the text is an argument after the end
//! of options, and its markup is escaped. Where nobody could see a notification, as in a container or over ssh,
//! none is sent, and that is not an error.

use std::ffi::OsString;

/// Variables by which programs find the desktop on Linux, and which programs started from a desktop have on
/// macOS. Without one of them nobody could see a notification.
const DESKTOP: &[&str] = if cfg!(target_os = "macos") {
    &["TERM_PROGRAM", "__CFBundleIdentifier"]
} else {
    &["DBUS_SESSION_BUS_ADDRESS", "WAYLAND_DISPLAY", "DISPLAY"]
};
const SCRIPT: [&str; 3] = [
    "on run argv",
    "display notification (item 2 of argv) with title (item 1 of argv)",
    "end run",
];

/// A program and its arguments.
pub(super) type Command = (&'static str, Vec<OsString>);

/// Somebody could see a notification.
pub(super) fn is_there() -> bool {
    let is_set = |name: &&str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    DESKTOP.iter().any(is_set)
}

/// What shows it, if there is a desktop.
pub(super) fn command(title: &str, text: &str) -> Option<Command> {
    let show = if cfg!(target_os = "macos") {
        osascript
    } else {
        notify_send
    };
    is_there().then(|| show(title, text))
}

fn notify_send(title: &str, text: &str) -> Command {
    let text = text
        .replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;");
    let args = ["--app-name=ekiden", "--", title, &text];
    ("notify-send", args.map(OsString::from).to_vec())
}

fn osascript(title: &str, text: &str) -> Command {
    let script = SCRIPT.into_iter().flat_map(|line| ["-e", line]);
    (
        "osascript",
        script
            .chain(["--", title, text])
            .map(OsString::from)
            .collect(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words((program, args): Command) -> String {
        let args: Vec<String> = args
            .iter()
            .map(|word| word.to_string_lossy().into_owned())
            .collect();
        format!("{program} | {}", args.join(" | "))
    }

    // shows: REL-19
    #[test]
    fn no_text_becomes_an_option_markup_or_a_script() {
        let (title, text) = ("ekiden: --hint=x", "--help <b>\" & do shell script \"x");
        expect_test::expect![[r#"
            notify-send | --app-name=ekiden | -- | ekiden: --hint=x | --help &lt;b&gt;" &amp; do shell script "x
            osascript | -e | on run argv | -e | display notification (item 2 of argv) with title (item 1 of argv) | -e | end run | -- | ekiden: --hint=x | --help <b>" & do shell script "x"#]]
            .assert_eq(&[words(notify_send(title, text)), words(osascript(title, text))].join("\n"));
    }
}
