//! Plays the parts that the keeper's tests need: an engine that can be killed, agents and tools
//! that behave badly. Not shipped.
//!
//! Every process that takes part holds the *lifeline*, a pipe whose other end the test reads. Each
//! says its part and its pid on it (`tool 4711`); its end means that all of them are dead.

#![expect(
    unsafe_code,
    reason = "a process that forks on and on cannot be had from a safe interface"
)]
#![expect(
    clippy::disallowed_methods,
    reason = "an actor starts processes and writes to the lifeline as it likes"
)]

use std::env;
use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use ekiden_agent::address::{Socket, question};
use ekiden_agent::child::{ChildSpec, spawn};
use ekiden_agent::task::{run_output, run_quick};
use ekiden_agent::{become_subreaper, keeper};
use ekiden_core::time::Millis;
use tokio::io::AsyncWriteExt as _;

/// The number of the lifeline's descriptor, in every process that holds it.
const LIFELINE: &str = "ACTOR_LIFELINE";
/// How long a chain of forks goes on.
const HOPPER_LIFE: Duration = Duration::from_secs(15);
/// Below this are the standard streams.
const LIFELINE_MIN: i32 = 10;

fn main() -> io::Result<()> {
    keeper::run_if_asked();
    let mut args = env::args().skip(1);
    match args.next().as_deref() {
        Some("engine") => engine(args),
        Some("environment") => environment(),
        Some("quick") => quick(),
        Some("listener") => listener(args),
        Some("agent") => agent(args),
        Some("daemon") => daemon(args),
        Some("tool") => tool(args),
        Some("hopper") => hopper(false),
        Some("wild-hopper") => hopper(true),
        other => Err(io::Error::other(format!("no part is called {other:?}"))),
    }
}

/// `engine GRACE_MS [--lock FILE] PART ARGS...`: has PART played under a keeper. The lifeline comes
/// as standard input.
fn engine(args: impl Iterator<Item = String>) -> io::Result<()> {
    let lifeline = rustix::io::fcntl_dupfd_cloexec(io::stdin(), LIFELINE_MIN)?;
    rustix::io::fcntl_setfd(&lifeline, rustix::io::FdFlags::empty())?;
    let number = std::os::fd::AsRawFd::as_raw_fd(&lifeline).to_string();
    say_on(&number, "engine", std::process::id())?;
    become_subreaper()?;
    let mut spec = spec_of(args)?;
    spec.env_set.push((LIFELINE.into(), number.clone().into()));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let mut child = spawn(spec).map_err(io::Error::other)?;
        // The only child of this process is the outer keeper.
        let outer = std::fs::read_to_string("/proc/thread-self/children")?;
        say_on(
            &number,
            "outer",
            outer.trim().parse().map_err(io::Error::other)?,
        )?;
        if let Some(agent) = child.started().await {
            // One that is gone already has no parent any more.
            if let Ok(inner) = parent_of(agent) {
                say_on(&number, "inner", inner)?;
            }
            say_on(&number, "agent", agent)?;
        }
        let end = child.wait().await;
        writeln!(lifeline_file(&number)?, "end {end:?}")
    })
}

fn parent_of(pid: u32) -> io::Result<u32> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let behind_name = stat.rsplit(") ").next().unwrap_or_default();
    let parent = behind_name
        .split(' ')
        .nth(1)
        .and_then(|parent| parent.parse().ok());
    parent.ok_or_else(|| io::ErrorKind::InvalidData.into())
}

fn spec_of(mut args: impl Iterator<Item = String>) -> io::Result<ChildSpec> {
    let grace = Millis(
        args.next()
            .and_then(|grace| grace.parse().ok())
            .unwrap_or(0),
    );
    let mut args = args.peekable();
    let mut lock = None;
    if args.next_if_eq("--lock").is_some() {
        let file = File::create(args.next().unwrap_or_default())?;
        file.lock()?;
        lock = Some(file);
    }
    Ok(ChildSpec {
        args: args.map(OsString::from).collect(),
        lock,
        grace,
        ..ChildSpec::new(keeper::executable()?, env::current_exe()?, "/")
    })
}

/// Prints the environment that an agent of ekiden gets.
fn environment() -> io::Result<()> {
    let mut spec = spec_of(["0".to_owned()].into_iter())?;
    spec.program = "env".into();
    spec.env_set = vec![
        ("EKIDEN_RUN".into(), "7f3a0b1c".into()),
        ("HOME".into(), "/elsewhere".into()),
    ];
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let output = runtime
        .block_on(run_output(spec, b"", std::future::pending(), 64 * 1024))
        .map_err(io::Error::other)?;
    io::stdout().write_all(&output.stdout)
}

/// Runs a short command as ekiden does where it has no runtime, and prints what came of it.
fn quick() -> io::Result<()> {
    let script = ["-c", "pwd; echo error >&2; cat; exit 3"].map(OsString::from);
    let output = run_quick("sh", &script, "/tmp".as_ref(), Millis::from_secs(20));
    let output = output.map_err(io::Error::other)?;
    let (out, err) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    write!(io::stdout(), "{:?} {out:?} {err:?}", output.end)
}

/// `listener PATH`: answers each caller, who need not ask anything.
fn listener(mut args: impl Iterator<Item = String>) -> io::Result<()> {
    let path = args.next().unwrap_or_default();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let _socket = Socket::listen(path.into(), |mut caller| async move {
            let asked = question(&mut caller, 100).await.unwrap_or_default();
            let _ = caller.write_all(&asked).await;
        })?;
        std::future::pending().await
    })
}

/// `agent MANNERS PARTS...`: starts the parts, says that it is ready and works until it is ended.
/// With the part `leave` it exits with 7 instead.
fn agent(mut args: impl Iterator<Item = String>) -> io::Result<()> {
    let manners = args.next().unwrap_or_default();
    let heard = listen_to(&manners)?;
    for part in args {
        match part.as_str() {
            "child" => start(&["tool", &manners])?,
            "setsid" => start(&["tool", &manners, "setsid"])?,
            "daemon" => start(&["daemon", &manners])?,
            "hopper" | "wild-hopper" => start(&[&part])?,
            "leave" => std::process::exit(7),
            other => return Err(io::Error::other(format!("no tool is called {other:?}"))),
        }
    }
    work(&heard)
}

/// Forks, makes a session of its own, forks again and lets the parent exit, as servers do.
fn daemon(mut args: impl Iterator<Item = String>) -> io::Result<()> {
    rustix::process::setsid()?;
    start(&["tool", &args.next().unwrap_or_default(), "setsid"])
}

/// `tool MANNERS [setsid]`: says its pid and works until it is ended.
fn tool(mut args: impl Iterator<Item = String>) -> io::Result<()> {
    let heard = listen_to(&args.next().unwrap_or_default())?;
    if args.next().is_some() {
        rustix::process::setsid()?;
    }
    say("tool")?;
    work(&heard)
}

/// Forks and exits, and the child does the same, so that no list of processes is ever right. A wild
/// one leaves its session and process group each time. It ends by itself, long after the test, so
/// that a broken keeper costs a red test and not the machine.
fn hopper(wild: bool) -> io::Result<()> {
    say("tool")?;
    let until = Instant::now() + HOPPER_LIFE;
    while Instant::now() < until {
        if wild {
            // The first may lead a group already.
            let _ = rustix::process::setsid();
        }
        // SAFETY: this process has one thread, and the child may do all that the parent may.
        match unsafe { libc::fork() } {
            0 => {}
            _parent => std::process::exit(0),
        }
    }
    Ok(())
}

/// A `deaf` process is not moved by SIGTERM, SIGINT and SIGHUP; a `polite` one dies of them.
fn listen_to(manners: &str) -> io::Result<Arc<AtomicBool>> {
    let heard = Arc::new(AtomicBool::new(false));
    if manners == "deaf" {
        for signal in [libc::SIGTERM, libc::SIGINT, libc::SIGHUP] {
            signal_hook::flag::register(signal, Arc::clone(&heard))?;
        }
    }
    Ok(heard)
}

fn work(_heard: &Arc<AtomicBool>) -> ! {
    loop {
        std::thread::park();
    }
}

fn start(args: &[&str]) -> io::Result<()> {
    Command::new(env::current_exe()?)
        .args(args)
        .spawn()
        .map(drop)
}

fn say(part: &str) -> io::Result<()> {
    say_on(
        &env::var(LIFELINE).map_err(io::Error::other)?,
        part,
        std::process::id(),
    )
}

fn say_on(lifeline: &str, part: &str, pid: u32) -> io::Result<()> {
    // One write, so that lines of several processes do not mix.
    lifeline_file(lifeline)?.write_all(format!("{part} {pid}\n").as_bytes())
}

fn lifeline_file(number: &str) -> io::Result<File> {
    OpenOptions::new()
        .append(true)
        .open(format!("/dev/fd/{number}"))
}
