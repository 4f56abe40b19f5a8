//! Texts that want to be markup, links, scripts or secrets, in every field that somebody else can fill.

use ekiden_core::ends::EndCause;
use ekiden_core::event::{CheckOutcome, Commit, Event, RunResumed};
use ekiden_core::manifest::Manifest;
use ekiden_core::renewal::NewTask;
use ekiden_core::steering::Steering;
use pulldown_cmark::{Event as Md, Options, Parser, Tag};

use super::scenario::{Scenario, attempt, header, stages, with_words};
use crate::page::{Heading, Text, Tone};
use crate::render;

const TEXTS: [&str; 51] = [
    "<script>alert(1)</script>",
    "</blockquote></main><script src=//x.invalid/a.js></script>",
    "<img src=x onerror=alert(1)>",
    "<svg/onload=alert(1)>",
    "</svg><script>alert(1)</script>",
    "<a href=\"https://x.invalid\">here</a>",
    "<a href='javascript:alert(1)'>x</a>",
    "[here](https://x.invalid)",
    "![pixel](https://x.invalid/p.png)",
    "<https://x.invalid>",
    "https://x.invalid/plain and www.x.invalid",
    "mail me@x.invalid",
    "[ref]: https://x.invalid\n[ref]",
    "`code` and ``more`` and ```fence```",
    "```\n<script>alert(1)</script>\n```",
    "````\n[out](https://x.invalid)\n````",
    "~~~\n[out](https://x.invalid)\n~~~",
    "| a | b |\n|---|---|\n| [c](https://x.invalid) | d |",
    "\\| [x](https://x.invalid) \\|",
    "`|` [x](https://x.invalid) `|`",
    "# heading\n## Done\n### more",
    "> quote\n> > deeper",
    "---\ntitle: x\n---",
    "<!-- comment --> <!--",
    "<![CDATA[ x ]]>",
    "<?php echo 1 ?>",
    "<!doctype html><html><body>",
    "</title><script>1</script>",
    "</style><style>body{display:none}</style>",
    "<iframe src=https://x.invalid></iframe>",
    "<meta http-equiv=refresh content=0;url=https://x.invalid>",
    "<base href=https://x.invalid>",
    "<form action=https://x.invalid><input name=a></form>",
    "<link rel=stylesheet href=https://x.invalid/a.css>",
    "<object data=https://x.invalid></object>",
    "\" onmouseover=\"alert(1)",
    "' onmouseover='alert(1)",
    "&lt;script&gt;alert(1)&lt;/script&gt;",
    "&#60;script&#62;",
    "{{ page.title }} {% raw %} {# x #}",
    "{{ 7 * 7 }}",
    "{% include 'x' %}",
    "\u{202e}txt.exe\u{202c} \u{200b}zero",
    "\u{1b}]8;;https://x.invalid\u{7}link\u{1b}]8;;\u{7}",
    "\u{1b}[2J\u{1b}[31mred",
    "\u{0}\u{1}\u{7f}",
    "a\r\nb\rc\u{2028}d",
    "x</code></td></tr></table><h1>big</h1>",
    "ghp_x8K2mQ9vT4bN7cR1wZ5yL0pF3hJ6dS8gA2eU",
    "g\u{200b}hp_x8K2mQ9vT4bN7cR1wZ5yL0pF3hJ6dS8gA2eU",
    "$(rm -rf ~) `id` ; echo",
];

/// A run in which everything that somebody else can fill says this.
fn run_of(text: &str) -> Scenario {
    let mut only = stages(&[("S01", &[])]).remove(0);
    only.part = Default::default();
    only.task = text.to_owned();
    only.task_name = text.to_owned();
    let mut header = header(Manifest::single(only));
    header.settings.agent.name = text.to_owned();
    header.settings.agent.model = Some(text.to_owned());
    header.place.work_dir = text.to_owned();
    let mut run = Scenario::of(header);
    run.survey(&[text], &[text])
        .check(CheckOutcome::Failed { code: 1 }, text);
    run.steer(Steering::Instruct {
        words: text.to_owned(),
    });
    run.ends(
        attempt(1, 1),
        EndCause::NeverStarted(text.to_owned()),
        with_words("IN_PROGRESS", text),
    );
    let id = text.to_owned();
    run.commit(Commit::Made {
        id,
        files: 1,
        elsewhere: None,
        left_out: Vec::new(),
    });
    run.survey(&[text], &[&format!("M {text}")]);
    run.check(
        CheckOutcome::NotRun {
            error: text.to_owned(),
        },
        text,
    );
    run.ends(
        attempt(2, 1),
        EndCause::Protocol(text.to_owned()),
        with_words("BLOCKED", text),
    );
    let (error, tail) = (text.to_owned(), text.to_owned());
    run.commit(Commit::Failed { error, tail })
        .survey(&[], &[])
        .check(CheckOutcome::Failed { code: 1 }, text);
    let name = text.to_owned();
    run.event(Event::RunResumed(RunResumed {
        task: Some(NewTask {
            text: text.to_owned(),
            name,
        }),
        ..RunResumed::default()
    }));
    let call = |name: &str, input: &str| {
        let [name, text] = [name, input].map(json);
        format!(
            r#"{{"type":"assistant","message":{{"id":"m","model":"m","usage":{{"input_tokens":7}},"content":[{{"type":"tool_use","id":"t","name":{name},"input":{{"skill":{text}}}}}]}},"parent_tool_use_id":null}}"#
        )
    };
    let stream = format!("{}\n{}\n", call(text, ""), call("Skill", text));
    run.streams.read(0, 1, stream.as_bytes()).unwrap();
    run
}

/// A text as JSON.
fn json(text: &str) -> String {
    let escaped: String = text
        .chars()
        .map(|c| match c {
            '"' | '\\' => format!("\\{c}"),
            c if c.is_control() => format!("\\u{:04x}", c as u32),
            c => c.to_string(),
        })
        .collect();
    format!("\"{escaped}\"")
}

/// The tags of a page, each with its attributes, and whether it closes.
fn tags(html: &str) -> Vec<(bool, String, String)> {
    let mut tags = Vec::new();
    let mut rest = html;
    while let Some(begin) = rest.find('<') {
        let end = begin + rest[begin..].find('>').expect("a tag that is not closed");
        let tag = &rest[begin + 1..end];
        let (closes, tag) = tag
            .strip_prefix('/')
            .map_or((false, tag), |tag| (true, tag));
        let (name, attributes) = tag.split_once(' ').unwrap_or((tag, ""));
        tags.push((
            closes,
            name.trim_end_matches('/').to_owned(),
            attributes.to_owned(),
        ));
        rest = &rest[end + 1..];
    }
    tags
}

const KNOWN: &str = " html head meta title style body header main section footer h1 h2 h3 p ul li dl dt dd figure figcaption blockquote div table thead tbody tr th td code svg g path line text polyline circle rect details summary span ";
const VOID: [&str; 2] = ["meta", "!doctype"];

fn assert_sound(html: &str) {
    let mut open: Vec<String> = Vec::new();
    for (closes, name, attributes) in tags(html) {
        let is_known = KNOWN.contains(&format!(" {name} ")) || name == "!doctype";
        assert!(is_known, "<{name} {attributes}>");
        let calls = attributes.contains("href")
            || attributes.contains("src=")
            || attributes.contains("style=")
            || attributes.contains(" on");
        assert!(!calls, "<{name} {attributes}>");
        if closes {
            assert_eq!(open.pop().as_deref(), Some(name.as_str()));
        } else if !VOID.contains(&name.as_str()) && !attributes.ends_with('/') {
            open.push(name);
        }
    }
    assert!(open.is_empty(), "{open:?}");
}

fn assert_inert(markdown: &str) {
    for event in Parser::new_ext(markdown, Options::all()) {
        let is_live = matches!(
            &event,
            Md::Start(
                Tag::Link { .. } | Tag::Image { .. } | Tag::HtmlBlock | Tag::MetadataBlock(_)
            ) | Md::Html(_)
                | Md::InlineHtml(_)
        );
        assert!(!is_live, "{event:?} in\n{markdown}");
    }
}

// shows: REL-27, MEM-12
#[test]
fn no_text_is_more_than_words() {
    for text in TEXTS {
        let mut run = run_of(text);
        let (markdown, html) = (run.markdown(), run.html());
        assert_sound(&html);
        assert_sound(&render::main(&run.page()));
        assert_inert(&markdown);
        assert!(
            !html.contains("<script") && !html.contains('\u{1b}') && !markdown.contains('\u{1b}')
        );
        assert!(!markdown.contains("ghp_x8K2") && !html.contains("ghp_x8K2"));
    }
}

// shows: REL-27
#[test]
fn what_the_command_line_adds_is_no_more_than_words_either() {
    for text in TEXTS {
        let heading = Heading {
            id: "7f3a".to_owned(),
            tone: Tone::Failed,
            headline: Text::own("failed: ").and_said(text),
            details: vec![text.to_owned()],
            next: vec![(
                "continues it".to_owned(),
                format!("ekiden resume --allowed-tool '{text}'"),
            )],
            left_out: Some(text.to_owned()),
        };
        let page = Scenario::relay(None).page_of(&heading);
        let (markdown, html) = (render::markdown(&page), render::html(&page));
        assert_sound(&html);
        assert_inert(&markdown);
        assert!(!markdown.contains("ghp_x8K2") && !html.contains("ghp_x8K2"));
    }
}
