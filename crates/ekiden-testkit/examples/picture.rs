//! Draws the README's pictures from a real run: the first command, on a terminal of its own, as SVG.
//!
//! ```text
//! cargo build && cargo run -p ekiden-testkit --example picture
//! ```
//!
//! The run works in an empty directory, so it is the same on every machine but for the run's id and its
//! times. One picture for light pages and one for dark ones: `docs/pictures/first-run-{light,dark}.svg`.
#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_macros,
    reason = "it runs the program, writes the pictures and says where they are; nothing of this is shipped"
)]

use std::fmt::Write as _;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::Duration;

use ekiden_testkit::pty::Pty;
use vt100::{Cell, Color, Screen};

const COLUMNS: u16 = 92;
const ROWS: u16 = 60;
/// A character's width and a line's height, in the picture's units.
const WIDTH: f32 = 8.4;
const HEIGHT: f32 = 19.0;
const MARGIN: f32 = 16.0;
const COMMAND: &str = "ekiden run task.md --agent rehearsal --verify \"sh check.sh\"";

/// What the sixteen colours look like on a page.
struct Palette {
    name: &'static str,
    background: &'static str,
    text: &'static str,
    dim: &'static str,
    colours: [&'static str; 8],
}

const LIGHT: Palette = Palette {
    name: "light",
    background: "#f6f8fa",
    text: "#1f2328",
    dim: "#656d76",
    colours: [
        "#24292f", "#cf222e", "#116329", "#7d4e00", "#0969da", "#8250df", "#1b7c83", "#57606a",
    ],
};
const DARK: Palette = Palette {
    name: "dark",
    background: "#161b22",
    text: "#e6edf3",
    dim: "#8d96a0",
    colours: [
        "#6e7681", "#ff7b72", "#3fb950", "#d29922", "#58a6ff", "#bc8cff", "#39c5cf", "#b1bac4",
    ],
};

fn main() -> ExitCode {
    match draw() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn draw() -> Result<(), Box<dyn std::error::Error>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2);
    let root = root.ok_or("this crate lies two directories below the root")?;
    let mut parser = vt100::Parser::new(ROWS, COLUMNS, 0);
    parser.process(run(root)?.as_bytes());
    for palette in [LIGHT, DARK] {
        let path = root.join(format!("docs/pictures/first-run-{}.svg", palette.name));
        std::fs::write(&path, svg(parser.screen(), &palette))?;
        println!("{}", path.display());
    }
    Ok(())
}

/// What the first command writes to its terminal.
fn run(root: &Path) -> Result<String, Box<dyn std::error::Error>> {
    let work = tempfile::tempdir()?;
    for name in ["task.md", "check.sh"] {
        std::fs::copy(
            root.join("examples/first-relay").join(name),
            work.path().join(name),
        )?;
    }
    let ekiden = root.join("target/debug/ekiden");
    let shell = format!(
        "stty cols {COLUMNS} rows {ROWS}; exec {} {}",
        ekiden.display(),
        &COMMAND[7..]
    );
    let mut command = Command::new("sh");
    command.args(["-c", &shell]).current_dir(work.path());
    command
        .env_clear()
        .env("HOME", work.path())
        .env("TERM", "xterm-256color");
    command.env("LANG", "C.UTF-8").env("TZ", "UTC");
    command.envs(std::env::var_os("PATH").map(|path| ("PATH", path)));
    let mut pty = Pty::spawn(command)?;
    let ended = pty
        .wait(Duration::from_secs(120))
        .ok_or("the run does not end")?;
    if !ended.success() {
        return Err(format!("the run failed ({ended}):\n{}", pty.written()).into());
    }
    // The last lines may still be on their way.
    pty.wait_until(Duration::from_secs(5), |pty| {
        pty.written().contains("next ")
    });
    Ok(pty.written())
}

fn svg(screen: &Screen, palette: &Palette) -> String {
    let last = (0..ROWS)
        .rev()
        .find(|row| !text_of(screen, *row).trim().is_empty());
    let rows = last.map_or(1, |row| row + 2);
    let width = f32::from(COLUMNS) * WIDTH + 2.0 * MARGIN;
    let height = f32::from(rows) * HEIGHT + 2.0 * MARGIN;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.0}\" height=\"{height:.0}\" \
         viewBox=\"0 0 {width:.0} {height:.0}\" role=\"img\" aria-label=\"A run of ekiden on a terminal\">\n\
         <rect width=\"100%\" height=\"100%\" rx=\"8\" fill=\"{}\"/>\n\
         <g font-family=\"ui-monospace, SFMono-Regular, Menlo, Consolas, monospace\" font-size=\"14\" \
         fill=\"{}\" xml:space=\"preserve\">\n",
        palette.background, palette.text
    );
    let _ = writeln!(
        svg,
        "{}",
        line(
            0,
            &format!(
                "<tspan fill=\"{}\">$</tspan> {}",
                palette.dim,
                escaped(COMMAND)
            )
        )
    );
    for row in 0..rows - 1 {
        let spans = spans(screen, row, palette);
        if !spans.is_empty() {
            let _ = writeln!(svg, "{}", line(row + 1, &spans));
        }
    }
    svg.push_str("</g>\n</svg>\n");
    svg
}

fn line(row: u16, spans: &str) -> String {
    let y = MARGIN + f32::from(row) * HEIGHT + 14.0;
    format!("<text x=\"{MARGIN:.0}\" y=\"{y:.0}\">{spans}</text>")
}

fn text_of(screen: &Screen, row: u16) -> String {
    (0..COLUMNS)
        .filter_map(|column| Some(shown(screen.cell(row, column)?)))
        .collect()
}

fn shown(cell: &Cell) -> String {
    if cell.has_contents() {
        cell.contents().to_owned()
    } else {
        " ".to_owned()
    }
}

/// The row's text, each run of one look in a span of its own.
fn spans(screen: &Screen, row: u16, palette: &Palette) -> String {
    let mut spans = String::new();
    let mut run = (String::new(), String::new());
    for column in 0..COLUMNS {
        let Some(cell) = screen.cell(row, column) else {
            continue;
        };
        let look = look(cell, palette);
        if look != run.0 {
            spans.push_str(&span(&run));
            run = (look, String::new());
        }
        run.1.push_str(&shown(cell));
    }
    run.1.truncate(run.1.trim_end().len());
    spans.push_str(&span(&run));
    spans
}

fn span((look, text): &(String, String)) -> String {
    match (look.is_empty(), text.is_empty()) {
        (_, true) => String::new(),
        (true, false) => escaped(text),
        (false, false) => format!("<tspan{look}>{}</tspan>", escaped(text)),
    }
}

fn look(cell: &Cell, palette: &Palette) -> String {
    let mut look = String::new();
    let colour = match cell.fgcolor() {
        Color::Idx(index) => palette.colours.get(usize::from(index % 8)).copied(),
        Color::Default | Color::Rgb(..) => None,
    };
    let colour = colour.or(cell.dim().then_some(palette.dim));
    if let Some(colour) = colour {
        let _ = write!(look, " fill=\"{colour}\"");
    }
    if cell.bold() {
        look.push_str(" font-weight=\"bold\"");
    }
    look
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}
