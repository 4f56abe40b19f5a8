//! Plays the parts that the keeper's tests need: an engine that can be killed, agents and tools
//! that behave badly. Not shipped.
//!
//! Every process that takes part holds the *lifeline*, a pipe whose other end the test reads. Each
//! says its part and its pid on it (`tool 4711`); its end means that all of them are dead.

#![expect(unsafe_code, reason = "a process that forks on and on cannot be had from a safe interface")]
#![expect(
    clippy::disallowed_methods,
    reason = "an actor starts processes and writes to the lifeline as it likes"
)]

use std::env;
use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use ekiden_agent::child::{ChildSpec, StdinKind, spawn};
use ekiden_agent::task::{run_output, run_quick};
use ekiden_agent::workers::{ShortCommand, Workers};
use ekiden_agent::{become_subreaper, keeper, workers};
use ekiden_core::time::Millis;
use rustix::process::Signal;

/// The number of the lifeline's descriptor, in every process that holds it.
const LIFELINE: &str = "ACTOR_LIFELINE";
/// How long a chain of forks goes on.
const HOPPER_LIFE: Duration = Duration::from_secs(15);
/// Below this are the standard streams.
const LIFELINE_MIN: i32 = 10;

fn main() -> io::Result<()> {
    keeper::run_if_asked();
    workers::run_if_asked();
    let mut args = env::args().skip(1);
    match args.next().as_deref() {
        Some("engine") => engine(args),
        Some("environment") => environment(),
        Some("quick") => quick(),
        Some("prepared") => prepared(),
        Some("agent") => agent(args),
        Some("orders") => orders(args),
        Some("command") => command(args),
        Some("daemon") => daemon(args),
        Some("tool") => tool(args),
        Some("hopper") => hopper(false),
        Some("wild-hopper") => hopper(true),
        other => Err(io::Error::other(format!("no part is called {other:?}"))),
    }
}

/// Takes the lifeline over from standard input and says who we are. The lifeline, and its number.
fn begin() -> io::Result<(OwnedFd, String)> {
    let lifeline = rustix::io::fcntl_dupfd_cloexec(io::stdin(), LIFELINE_MIN)?;
    rustix::io::fcntl_setfd(&lifeline, rustix::io::FdFlags::empty())?;
    let number = std::os::fd::AsRawFd::as_raw_fd(&lifeline).to_string();
    say_on(&number, "engine", std::process::id())?;
    become_subreaper()?;
    Ok((lifeline, number))
}

/// `engine GRACE_MS [--lock FILE] PART ARGS...`: has PART played under a keeper. The lifeline comes
/// as standard input.
fn engine(args: impl Iterator<Item = String>) -> io::Result<()> {
    let (_lifeline, number) = begin()?;
    let mut spec = spec_of(args)?;
    spec.env_set.push((LIFELINE.into(), number.clone().into()));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut child = spawn(spec).map_err(io::Error::other)?;
        say_on(&number, "outer", child.keeper_pid())?;
        if let (Some(agent), Some(inner)) = (child.started().await, child.inner_keeper_pid()) {
            say_on(&number, "inner", inner)?;
            say_on(&number, "agent", agent)?;
        }
        let end = child.wait().await;
        writeln!(lifeline_file(&number)?, "end {end:?}, {} left", child.left_behind())
    })
}

/// `orders PART ARGS...`: an engine that has PART played by a worker.
fn orders(args: impl Iterator<Item = String>) -> io::Result<()> {
    let (_lifeline, number) = begin()?;
    let command = ShortCommand {
        program: env::current_exe()?.into(),
        args: args.map(OsString::from).collect(),
        dir: PathBuf::from("/"),
        env: vec![(LIFELINE.into(), number.clone().into())],
    };
    let workers = Workers::new(keeper::executable()?);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let output = runtime.block_on(workers.run(command, b"", std::future::pending(), 1024));
    writeln!(lifeline_file(&number)?, "end {:?}", output.map_err(io::Error::other)?.end)
}

/// `command MANNERS PARTS...`: an agent that says above whom it stands.
fn command(args: impl Iterator<Item = String>) -> io::Result<()> {
    let lifeline = env::var(LIFELINE).map_err(io::Error::other)?;
    let mut pid = std::process::id();
    for part in ["agent", "worker", "inner", "outer"] {
        say_on(&lifeline, part, pid)?;
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
        let behind_name = stat.rsplit(") ").next().unwrap_or_default();
        let parent = behind_name.split(' ').nth(1).and_then(|parent| parent.parse().ok());
        pid = parent.ok_or(io::ErrorKind::InvalidData)?;
    }
    agent(args)
}

fn spec_of(mut args: impl Iterator<Item = String>) -> io::Result<ChildSpec> {
    let grace = Millis(args.next().and_then(|grace| grace.parse().ok()).unwrap_or(0));
    let mut args = args.peekable();
    let mut lock = None;
    if args.next_if_eq("--lock").is_some() {
        let file = File::create(args.next().unwrap_or_default())?;
        file.lock()?;
        lock = Some(file);
    }
    Ok(ChildSpec {
        keeper: keeper::executable()?,
        program: env::current_exe()?.into(),
        args: args.map(OsString::from).collect(),
        dir: PathBuf::from("/"),
        env_set: Vec::new(),
        lock,
        grace,
        stdin: StdinKind::Null,
    })
}

/// Prints the environment that an agent of ekiden gets.
fn environment() -> io::Result<()> {
    let mut spec = spec_of(["0".to_owned()].into_iter())?;
    spec.program = "env".into();
    spec.env_set = vec![("EKIDEN_RUN".into(), "7f3a0b1c".into()), ("HOME".into(), "/elsewhere".into())];
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let output =
        runtime.block_on(run_output(spec, Millis::from_secs(20), 64 * 1024)).map_err(io::Error::other)?;
    io::stdout().write_all(&output.stdout)
}

/// Runs a short command as ekiden does where it has no runtime, and prints what came of it.
fn quick() -> io::Result<()> {
    let script = ["-c", "pwd; echo error >&2; cat; exit 3"].map(OsString::from);
    let output = run_quick("sh".as_ref(), &script, "/tmp".as_ref(), Millis::from_secs(20));
    let output = output.map_err(io::Error::other)?;
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    write!(io::stdout(), "{:?} {out:?} {err:?}", output.end)
}

/// Has a keeper wait four times: for a child, to be stopped and to be killed before one comes, and for
/// nobody. Prints what became of the children, and the last keeper's pid.
fn prepared() -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let executable = keeper::executable()?;
    for misfortune in [None, Some((Signal::STOP, ") T")), Some((Signal::KILL, ") Z"))] {
        keeper::prepare(&executable);
        keeper::prepare(&executable);
        let waiting = only_child()?;
        if let Some((signal, state)) = misfortune {
            rustix::process::kill_process(waiting, signal)?;
            let stat = format!("/proc/{}/stat", waiting.as_raw_nonzero());
            while !std::fs::read_to_string(&stat)?.contains(state) {
                std::thread::yield_now();
            }
        }
        let mut spec = spec_of(["0".to_owned()].into_iter())?;
        (spec.program, spec.args) = ("sh".into(), ["-c".into(), "exit 5".into()].to_vec());
        let (keeper, end) = runtime.block_on(async {
            let mut child = spawn(spec).map_err(io::Error::other)?;
            Ok::<_, io::Error>((child.keeper_pid(), child.wait().await))
        })?;
        let is_same = keeper.cast_signed() == waiting.as_raw_nonzero().get();
        writeln!(io::stdout(), "{end:?} {is_same}")?;
    }
    keeper::prepare(&executable);
    writeln!(io::stdout(), "{}", only_child()?.as_raw_nonzero())
}

/// The newest child of this process that is no zombie.
fn only_child() -> io::Result<rustix::process::Pid> {
    let children = std::fs::read_to_string("/proc/thread-self/children")?;
    let newest = children.split_whitespace().last().and_then(|pid| pid.parse().ok());
    newest.and_then(rustix::process::Pid::from_raw).ok_or_else(|| io::ErrorKind::NotFound.into())
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
    Command::new(env::current_exe()?).args(args).spawn().map(drop)
}

fn say(part: &str) -> io::Result<()> {
    say_on(&env::var(LIFELINE).map_err(io::Error::other)?, part, std::process::id())
}

fn say_on(lifeline: &str, part: &str, pid: u32) -> io::Result<()> {
    // One write, so that lines of several processes do not mix.
    lifeline_file(lifeline)?.write_all(format!("{part} {pid}\n").as_bytes())
}

fn lifeline_file(number: &str) -> io::Result<File> {
    OpenOptions::new().append(true).open(format!("/dev/fd/{number}"))
}
