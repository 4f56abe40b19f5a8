//! Telling a person who is elsewhere, by the desktop's own means: `notify-send` on Linux, `osascript`
//! on macOS.
//!
//! Without a shell, and no text can become an option, markup or a script: it is an argument behind the
//! end of options, and what looks like markup is escaped. Where nobody could see a notification, as in
//! a container or over ssh, there is none, and that is no error.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use ekiden_agent::child::{ChildEnd, ChildSpec, StdinKind};
use ekiden_agent::task;
use ekiden_core::limits;
use ekiden_core::text::one_line;

use crate::error::in_full;

/// By which a program finds the desktop on Linux, and what programs that were started on a desktop
/// have on macOS. Where none is set, nobody looks.
const DESKTOP: &[&str] = if cfg!(target_os = "macos") {
    &["TERM_PROGRAM", "__CFBundleIdentifier"]
} else {
    &["DBUS_SESSION_BUS_ADDRESS", "WAYLAND_DISPLAY", "DISPLAY"]
};
/// What is kept of a notifier's complaint.
const OUTPUT_BYTES_MAX: usize = 4096;
/// The most of a line that a notification shows, in characters.
const LINE_CHARS_MAX: usize = 120;
const SCRIPT: [&str; 3] =
    ["on run argv", "display notification (item 2 of argv) with title (item 1 of argv)", "end run"];

/// A program and its arguments.
type Command = (&'static str, Vec<OsString>);

/// Shows a notification.
///
/// # Errors
///
/// If there is somebody to see it, and it cannot be shown.
pub(crate) async fn notify(keeper: PathBuf, dir: PathBuf, text: String) -> Result<(), String> {
    let Some((program, args)) = command(&title(&dir), &text) else { return Ok(()) };
    let spec = ChildSpec {
        keeper,
        program: program.into(),
        args,
        dir,
        env_set: Vec::new(),
        lock: None,
        grace: limits::KILL_GRACE,
        stdin: StdinKind::Null,
    };
    let done = task::run_output(spec, limits::NOTIFY_TIMEOUT, OUTPUT_BYTES_MAX).await;
    let output = done.map_err(|error| in_full(&error))?;
    if output.end == ChildEnd::Exited(0) {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(format!("`{program}` failed: {}", one_line(&said, LINE_CHARS_MAX)))
}

fn command(title: &str, text: &str) -> Option<Command> {
    let is_set = |name: &&str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let show = if cfg!(target_os = "macos") { osascript } else { notify_send };
    DESKTOP.iter().any(is_set).then(|| show(title, text))
}

fn notify_send(title: &str, text: &str) -> Command {
    let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    let args = ["--app-name=ekiden", "--", title, &text];
    ("notify-send", args.map(OsString::from).to_vec())
}

fn osascript(title: &str, text: &str) -> Command {
    let script = SCRIPT.into_iter().flat_map(|line| ["-e", line]);
    ("osascript", script.chain(["--", title, text]).map(OsString::from).collect())
}

/// Which run it is about: the directory's name.
fn title(dir: &Path) -> String {
    let name = dir.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    format!("ekiden: {}", one_line(&name, LINE_CHARS_MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words((program, args): Command) -> String {
        let args: Vec<String> = args.iter().map(|word| word.to_string_lossy().into_owned()).collect();
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

    // shows: REL-19
    #[test]
    fn a_notification_says_where_in_one_line() {
        assert_eq!(title(Path::new("/home/me/my\n\u{1b}[31mproject")), "ekiden: my project");
        assert_eq!(title(Path::new("/")), "ekiden: ");
    }
}
