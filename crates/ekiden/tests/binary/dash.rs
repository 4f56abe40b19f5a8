//! `ekiden dash`: who is let in, what is shown, and how a page hears that its run changed.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::Stdio;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::environment::{Environment, items};
use crate::running::{PATIENCE, Running, wait_until};

const RUN: [&str; 4] = ["run", "task.md", "--agent", "rehearsal"];

/// A dash at work, and a browser that was let in.
pub(crate) struct Dash {
    pub(crate) running: Running,
    pub(crate) host: String,
    /// The path that the token led to.
    pub(crate) base: String,
    pub(crate) cookie: String,
    token: String,
}

/// An answer as it came.
pub(crate) struct Answer {
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) fn status(&self) -> &str {
        self.head.split(' ').nth(1).unwrap()
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let lines = self.head.lines().skip(1);
        let mut named = lines.filter_map(|line| line.split_once(": "));
        Some(named.find(|(found, _)| *found == name)?.1)
    }
}

fn connected(host: &str, request: &str) -> BufReader<TcpStream> {
    let mut stream = TcpStream::connect(host).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    BufReader::new(stream)
}

pub(crate) fn asked(host: &str, request: &str) -> Answer {
    let mut text = String::new();
    connected(host, request).read_to_string(&mut text).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
    Answer {
        head: head.to_owned(),
        body: body.to_owned(),
    }
}

impl Dash {
    fn start(environment: &Environment) -> Self {
        Self::started(environment.start(&["dash", "--port", "0"]))
    }

    /// Lets a browser in.
    pub(crate) fn started(mut running: Running) -> Self {
        let line = running.wait_for_line("http://");
        let (host, token) = line
            .strip_prefix("http://")
            .and_then(|rest| rest.split_once("/?t="))
            .unwrap();
        let mut dash = Self {
            running,
            host: host.to_owned(),
            token: token.to_owned(),
            base: String::new(),
            cookie: String::new(),
        };
        let entered = dash.get(&format!("/?t={token}"), &[]);
        assert_eq!(entered.status(), "303", "{}", entered.head);
        dash.base = entered.header("location").unwrap().to_owned();
        let cookie = entered.header("set-cookie").unwrap();
        assert!(cookie.ends_with(&format!("; Path={}; HttpOnly; SameSite=Strict", dash.base)));
        dash.cookie = cookie.split(';').next().unwrap().to_owned();
        dash
    }

    fn request(&self, path: &str, headers: &[(&str, &str)]) -> String {
        let given = |name: &str| headers.iter().any(|(given, _)| *given == name);
        let host = match given("Host") {
            true => String::new(),
            false => format!("Host: {}\r\n", self.host),
        };
        let rest: String = headers
            .iter()
            .map(|(name, value)| format!("{name}: {value}\r\n"))
            .collect();
        format!("GET {path} HTTP/1.1\r\n{host}{rest}\r\n")
    }

    fn get(&self, path: &str, headers: &[(&str, &str)]) -> Answer {
        asked(&self.host, &self.request(path, headers))
    }

    /// What the index calls a run of the work dir.
    pub(crate) fn address(&self, run: &str) -> String {
        let index = self.page("").body;
        let (_, rest) = index.split_once(&format!("<a href=\"run/{run}")).unwrap();
        format!("{run}{}", rest.split_once('"').unwrap().0)
    }

    /// A page of somebody who was let in.
    pub(crate) fn page(&self, path: &str) -> Answer {
        let path = format!("{}{path}", self.base);
        self.get(&path, &[("Cookie", &self.cookie)])
    }
}

// shows: SEC-03
#[test]
fn nothing_is_shown_without_the_token_or_to_another_page() {
    let environment = Environment::new();
    environment.write("task.md", &items(1));
    environment.run(&RUN).expect(0);
    let dash = Dash::start(&environment);
    let (base, cookie) = (dash.base.as_str(), ("Cookie", dash.cookie.as_str()));
    let run = format!("{base}run/{}", dash.address(&environment.runs()[0]));
    let events = format!("{base}events");
    let style = format!("{base}style.css");
    for path in [base, &run, &style] {
        assert_eq!(dash.get(path, &[cookie]).status(), "200", "{path}");
    }
    for path in [base, &run, &events, &style] {
        let host = dash.host.as_str();
        let (_, port) = host.split_once(':').unwrap();
        let rebound = format!("evil.example:{port}");
        let others = format!("http://127.0.0.1:{}", port.parse::<u16>().unwrap() ^ 1);
        for (headers, expected) in [
            (vec![], "401"),
            (
                vec![("Cookie", "ekiden=0123456789abcdef0123456789abcdef")],
                "401",
            ),
            (vec![("Cookie", "other=1; ekiden=")], "401"),
            (vec![cookie, ("Host", &rebound)], "403"),
            (vec![cookie, ("Origin", "http://evil.example")], "403"),
            (vec![cookie, ("Origin", &others)], "403"),
            (vec![cookie, ("Origin", "null")], "403"),
            (vec![cookie, ("Sec-Fetch-Site", "same-site")], "403"),
        ] {
            let answer = dash.get(path, &headers);
            assert_eq!(answer.status(), expected, "{path} {headers:?}");
            assert!(!answer.body.contains("task.md"), "{path} {headers:?}");
        }
    }
    // The token is no cookie, and the cookie no token.
    let token = format!("ekiden={}", dash.token);
    assert_eq!(dash.get(base, &[("Cookie", &token)]).status(), "401");
    let value = dash.cookie.split_once('=').unwrap().1;
    for (path, expected) in [
        ("/".to_owned(), "401"),
        ("/other".to_owned(), "401"),
        (format!("/?t={value}"), "403"),
        (format!("/?t={}", &dash.token[1..]), "403"),
        ("/?t=".to_owned(), "403"),
    ] {
        assert_eq!(dash.get(&path, &[]).status(), expected, "{path}");
    }
    let entry = format!("/?t={}", dash.token);
    let foreign = dash.get(&entry, &[("Host", "evil.example")]);
    assert_eq!(foreign.status(), "403");
    assert_eq!(foreign.header("set-cookie"), None);
}

#[test]
fn a_dash_that_nobody_can_open_says_so() {
    let environment = Environment::new();
    let dash = format!("'{}' dash --port 0", env!("CARGO_BIN_EXE_ekiden"));
    let full = format!("{dash} > /dev/full; test $? = 74");
    environment.shell(&format!("test ! -e /dev/full || {{ {full}; }}"));
    for opener in ["xdg-open", "open"] {
        environment.script(opener, "exit 3");
    }
    // The opener starts in another directory.
    let line = format!("PATH=$PWD:$PATH exec {dash} --open 2>&1");
    let mut shell = environment.shell_command(&line);
    let shell = shell.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut running = Running::of(shell.spawn().unwrap());
    running.wait_for("open` ended with exit status: 3; open the address");
}

// shows: SEC-03, UIX-05
#[test]
fn every_answer_forbids_what_a_page_does_not_need() {
    let environment = Environment::new();
    environment.write("task.md", &items(1));
    environment.run(&RUN).expect(0);
    let dash = Dash::start(&environment);
    let run = format!("run/{}", dash.address(&environment.runs()[0]));
    let refused = dash.get("/", &[]);
    for answer in [
        dash.page(""),
        dash.page(&run),
        dash.page("script.js"),
        refused,
    ] {
        let policy = answer.header("content-security-policy").unwrap();
        assert!(policy.starts_with("default-src 'none'; style-src 'self'; script-src 'self';"));
        assert!(!policy.contains("unsafe"), "{policy}");
        assert!(policy.contains("frame-ancestors 'none'; base-uri 'none'; form-action 'self'"));
        assert_eq!(answer.header("referrer-policy"), Some("same-origin"));
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
        assert_eq!(answer.header("cache-control"), Some("no-store"));
    }
    for page in [dash.page("").body, dash.page(&run).body] {
        assert!(
            !page.contains("style=") && !page.contains("<style"),
            "{page}"
        );
        let page = page.replace("http://www.w3.org/2000/svg", "");
        assert!(
            !page.contains("http:") && !page.contains("https:"),
            "{page}"
        );
        assert!(page.contains("<noscript>") && page.len() < 300_000);
    }
    // The token is nowhere but in what was printed.
    let token = &dash.token;
    environment.shell(&format!("[ -z \"$(grep -rl {token} .. )\" ]"));
}

// shows: UIX-05
#[test]
fn a_page_hears_that_its_run_changed_and_shows_it() {
    let environment = Environment::with_git();
    let waits = "touch started; while [ ! -e go ]; do sleep 0.02; done; echo made";
    environment.write("task.md", &items(2).replacen("echo made", waits, 1));
    let run = environment.start(&RUN);
    wait_until("work", || environment.exists("started"));
    let dash = Dash::start(&environment);
    let address = dash.address(&environment.runs()[0]);
    let page = format!("run/{address}");
    let shown = dash.page(&page).body;
    assert!(shown.contains("Bash touch started;"), "{shown}");
    assert!(
        dash.page("")
            .body
            .contains("<b class=\"working\">running</b>")
    );
    let path = format!("{}events?run={address}", dash.base);
    let request = dash.request(&path, &[("Cookie", &dash.cookie)]);
    let mut events = connected(&dash.host, &request).lines().map(Result::unwrap);
    // While it works, the time on its page passes. A browser drops an event without data.
    assert!(events.any(|line| line == "event: changed"));
    assert!(events.next().unwrap().starts_with("data: "));
    environment.write("go", "");
    run.end().expect(0);
    let until = Instant::now() + PATIENCE;
    while !dash.page(&page).body.contains("complete (not verified)") {
        assert!(Instant::now() < until);
        assert!(events.any(|line| line == "event: changed"));
    }
    let index = dash.page("").body;
    assert!(index.contains("complete</b> task.md"), "{index}");
}

// shows: UIX-05
#[test]
fn of_many_runs_the_newest_hundred_are_listed() {
    let environment = Environment::new();
    environment.write("task.md", &items(1));
    environment.run(&RUN).expect(0);
    let run = &environment.runs()[0];
    let copies: String = (100..220)
        .map(|copy| format!("cp -r {run} {copy}{};", &run[3..]))
        .collect();
    let runs = environment.state().join("runs");
    environment.shell(&format!("cd {} && {copies}", runs.display()));
    let dash = Dash::start(&environment);
    let index = dash.page("").body;
    assert_eq!(index.matches("<li>").count(), 100);
    assert!(index.contains("older runs are not shown"), "{index}");
    assert!(index.len() < 300_000);
}

// shows: SEC-03
#[test]
fn large_heads_many_headers_and_silent_clients_are_cut_off() {
    let environment = Environment::new();
    let dash = Dash::start(&environment);
    let long = "x".repeat(20_000);
    let answer = dash.get(&dash.base, &[("X-Long", &long)]);
    assert!(answer.head.starts_with("HTTP/1.1 431"), "{}", answer.head);
    let many: Vec<(&str, &str)> = vec![("X", "1"); 100];
    assert!(dash.get(&dash.base, &many).head.starts_with("HTTP/1.1 431"));
    let silent: Vec<TcpStream> = (0..64)
        .map(|_| TcpStream::connect(&dash.host).unwrap())
        .collect();
    for mut stream in &silent {
        stream.write_all(b"GET / HT").unwrap();
    }
    // Whoever is silent is cut off long before this test gives up, and then there is room again.
    let until = Instant::now() + PATIENCE;
    let answers = || {
        let mut stream = TcpStream::connect(&dash.host).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(1)))
            .unwrap();
        let mut text = String::new();
        let _ = stream.write_all(dash.request("/", &[]).as_bytes());
        let _ = stream.read_to_string(&mut text);
        text.starts_with("HTTP/1.1 401")
    };
    while !answers() {
        assert!(Instant::now() < until);
        std::thread::sleep(Duration::from_millis(100));
    }
}

// shows: UIX-05
#[test]
fn a_taken_port_is_told_and_ctrl_c_ends_calmly() {
    let environment = Environment::new();
    let elsewhere = environment.run(&["dash", "--listen", "192.0.2.1"]);
    let error = "error: cannot listen on 192.0.2.1:7717: ";
    assert!(elsewhere.stderr.starts_with(error), "{elsewhere}");
    assert!(
        elsewhere
            .stderr
            .contains("hint: `--listen` needs an address"),
        "{elsewhere}"
    );
    for signal in [Signal::INT, Signal::TERM] {
        let dash = Dash::start(&environment);
        let (_, port) = dash.host.split_once(':').unwrap();
        let other = environment.run(&["dash", "--port", port]);
        assert_eq!(other.code, 69, "{other}");
        let error = format!("error: cannot listen on 127.0.0.1:{port}: ");
        assert!(other.stderr.starts_with(&error), "{other}");
        assert!(
            other.stderr.contains("hint: `--port 0` takes any"),
            "{other}"
        );
        dash.running.signal(signal);
        let said = dash.running.end().expect(0);
        assert_eq!(said.stderr, "");
    }
}

/// A copied repository has the same runs, and each is shown and named where it is.
// shows: UIX-05
#[test]
fn the_runs_of_a_copied_project_are_told_apart() {
    let environment = Environment::with_git();
    environment.write("task.md", &items(9));
    environment
        .run(&[&RUN[..], &["-m", "1"]].concat())
        .expect(3);
    environment.shell("cp -r . ../copy");
    environment.run_in("copy", &["status"]).expect(0);
    let dash = Dash::start(&environment);
    let shown = |path: &str| dash.page(path).body.replace("&#x2f;", "/");
    let index = shown("");
    let rows: Vec<&str> = index.split("<li><a href=\"").skip(1).collect();
    assert_eq!(rows.len(), 2, "{index}");
    let mut commands = Vec::new();
    for row in rows {
        let (address, rest) = row.split_once('"').unwrap();
        let page = shown(address);
        let dir = ["project", "copy"].into_iter().find(|dir| {
            let dir = environment.path(dir);
            rest.contains(&format!("<small>{} ", dir.display()))
        });
        let dir = environment.path(dir.unwrap());
        let id = &environment.runs()[0][..4];
        let command = format!("ekiden resume {id} -d {} -m 1", dir.display());
        assert!(page.contains(&command), "{command} in {page}");
        commands.push(command);
    }
    assert_ne!(commands[0], commands[1]);
}

// shows: UIX-05
#[test]
fn that_the_runs_cannot_be_looked_for_is_said() {
    let environment = Environment::new();
    let known = environment.path("home/.local/state/ekiden");
    std::fs::create_dir_all(&known).unwrap();
    std::fs::write(known.join("projects"), "").unwrap();
    environment.run(&["status", "--everywhere"]).expect(74);
    let index = Dash::start(&environment).page("").body;
    assert!(index.contains("<p class=\"attention\">cannot "), "{index}");
    assert!(!index.contains("Nothing is known"), "{index}");
}
